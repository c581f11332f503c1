# The CUDA kernels, twice: compiled by nvcc into pycomm._cuda, and by the host compiler, with the emulator that runs them
# on a CPU, into pycomm._emulator.

add_library(pycomm_device_plan STATIC csrc/cuda/plan.cpp csrc/cuda/choose.cpp)
target_link_libraries(pycomm_device_plan PUBLIC pycomm_native)

file(GLOB emulator_sources CONFIGURE_DEPENDS csrc/cuda/emulator/*.cpp)
add_library(pycomm_emulator STATIC EXCLUDE_FROM_ALL ${emulator_sources})
target_link_libraries(pycomm_emulator PUBLIC pycomm_device_plan)
set_source_files_properties(csrc/cuda/emulator/engine_kernels.cpp csrc/cuda/emulator/pack_kernels.cpp
  csrc/cuda/emulator/shot_kernels.cpp PROPERTIES COMPILE_OPTIONS "-Wno-unknown-pragmas")

# What calls the CUDA runtime: compiled for GPUs against NVIDIA's, and for tests against emulator/runtime.
set(host_sources csrc/bind/cuda.cpp csrc/bind/errors.cpp csrc/cuda/devices.cpp csrc/cuda/operation.cpp
  csrc/cuda/packing.cpp csrc/cuda/copies.cpp csrc/cuda/timing.cpp)

# As in _core, the bindings of a module are compiled as one; the rest file by file.
set_source_files_properties(csrc/bind/cuda.cpp csrc/bind/cuda_emulated_module.cpp csrc/bind/cuda_emulator.cpp
  csrc/bind/cuda_module.cpp csrc/bind/errors.cpp PROPERTIES UNITY_GROUP bindings)

if(PYCOMM_EMULATOR AND (DEFINED SKBUILD OR PYCOMM_PYTHON))
  pybind11_add_module(_emulator NO_EXTRAS csrc/bind/cuda_emulator.cpp csrc/bind/errors.cpp)
  pybind11_add_module(_cuda_emulated NO_EXTRAS csrc/bind/cuda_emulated_module.cpp ${host_sources}
    csrc/cuda/emulator/runtime/bound_kernel.cpp csrc/cuda/emulator/runtime/runtime.cpp
    csrc/cuda/emulator/runtime/world.cpp)
  target_include_directories(_cuda_emulated PRIVATE csrc/cuda/emulator/runtime)
  foreach(module IN ITEMS _emulator _cuda_emulated)
    target_include_directories(${module} SYSTEM PRIVATE ${pybind11_INCLUDE_DIRS})
    target_link_libraries(${module} PRIVATE pycomm_emulator)
    set_target_properties(${module} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    install(TARGETS ${module} DESTINATION pycomm)
  endforeach()
endif()

# ON needs nvcc. AUTO builds the CUDA path where there are both nvcc and a GPU: nvcc takes minutes for the three
# architectures, and who has no GPU should not wait for kernels that cannot run here.
if(PYCOMM_CUDA STREQUAL "OFF")
  return()
endif()
if(PYCOMM_CUDA STREQUAL "AUTO" AND NOT EXISTS /dev/nvidiactl)
  message(STATUS "pycomm: no NVIDIA device, so no CUDA kernels; PYCOMM_CUDA=ON builds them all the same")
  return()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(PYCOMM_CUDA STREQUAL "AUTO")
    message(STATUS "pycomm: no nvcc, so no CUDA kernels")
    return()
  endif()
  message(FATAL_ERROR "PYCOMM_CUDA=${PYCOMM_CUDA} needs nvcc: put it on PATH or name it with CUDACXX")
endif()

# sm_80 A100, sm_90 H100 and H200, sm_100 B200; the last as PTX too, for what comes later.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

add_library(pycomm_kernels STATIC csrc/cuda/engine.cu csrc/cuda/pack.cu csrc/cuda/shot.cu)
target_include_directories(pycomm_kernels PRIVATE csrc)
# "Numbers" of SCHEDULE.md: nothing contracted or flushed. Constexpr functions of the shared headers run on both sides.
target_compile_options(pycomm_kernels PRIVATE -fmad=false -prec-div=true -ftz=false --expt-relaxed-constexpr
  $<$<BOOL:${PYCOMM_WERROR}>:-Werror=all-warnings>)

if(DEFINED SKBUILD OR PYCOMM_PYTHON)
  pybind11_add_module(_cuda NO_EXTRAS csrc/bind/cuda_module.cpp ${host_sources})
  target_include_directories(_cuda SYSTEM PRIVATE ${pybind11_INCLUDE_DIRS} ${CUDAToolkit_INCLUDE_DIRS})
  # The static runtime looks for the driver when first called: no link to libcuda, so the module imports everywhere.
  target_link_libraries(_cuda PRIVATE pycomm_kernels pycomm_device_plan CUDA::cudart_static)
  set_target_properties(_cuda PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  install(TARGETS _cuda DESTINATION pycomm)
endif()
