# The CUDA kernels, twice: compiled by nvcc into pycomm._cuda, and by the host compiler, with the emulator that runs them
# on a CPU, into pycomm._emulator.

add_library(pycomm_device_plan STATIC csrc/cuda/plan.cpp)
target_link_libraries(pycomm_device_plan PUBLIC pycomm_native)

file(GLOB emulator_sources CONFIGURE_DEPENDS csrc/cuda/emulator/*.cpp)
add_library(pycomm_emulator STATIC EXCLUDE_FROM_ALL ${emulator_sources})
target_link_libraries(pycomm_emulator PUBLIC pycomm_device_plan)
set_source_files_properties(csrc/cuda/emulator/engine_kernels.cpp csrc/cuda/emulator/pack_kernels.cpp
  csrc/cuda/emulator/shot_kernels.cpp PROPERTIES COMPILE_OPTIONS "-Wno-unknown-pragmas")

if(DEFINED SKBUILD OR PYCOMM_PYTHON)
  pybind11_add_module(_emulator csrc/bind/cuda_emulator.cpp csrc/bind/errors.cpp)
  target_include_directories(_emulator SYSTEM PRIVATE ${pybind11_INCLUDE_DIRS})
  target_link_libraries(_emulator PRIVATE pycomm_emulator)
  install(TARGETS _emulator DESTINATION pycomm)
endif()
