// The exceptions pycomm throws. bind/ turns each into the Python class of the same name (pycomm/errors.py).
//
//   Error
//   ├── UsageError      the caller's mistake, found before any message is sent (a ValueError in Python)
//   ├── Unavailable     not built, or no such device: says why and what to do
//   ├── TransportError  a peer or a link failed: names the rank
//   ├── DeviceError     a CUDA call failed
//   └── ScheduleError   a schedule breaks one of its five facts: names rank, step and chunk
#pragma once

#include <stdexcept>
#include <string>

namespace pycomm {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct UsageError : Error {
  using Error::Error;
};

struct Unavailable : Error {
  using Error::Error;
};

struct TransportError : Error {
  using Error::Error;
};

struct DeviceError : Error {
  using Error::Error;
};

struct ScheduleError : Error {
  using Error::Error;
};

}  // namespace pycomm
