// What our handles and pointers are to the driver.
#pragma once

#include <gpuactors/device/types.hpp>

#include <cuda.h>

namespace gpuactors::cuda {

inline CUstream native(StreamHandle stream) {
  return static_cast<CUstream>(stream.native);
}

inline CUevent native(EventHandle event) {
  return static_cast<CUevent>(event.native);
}

inline CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

} // namespace gpuactors::cuda
