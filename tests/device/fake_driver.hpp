// What tests of the CUDA module ask of the fake driver, and the device that it shows.
#pragma once

#include <gpuactors/device/cuda_module.hpp>

#include <support/catch.hpp>

#include <dlfcn.h>

#include <memory>

namespace gpuactors::fake {

struct FakeKernel;

} // namespace gpuactors::fake

namespace gpuactors::test {

/// A function that only the fake driver has.
template <class F>
F* from_fake(const char* name) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  auto* function = reinterpret_cast<F*>(dlsym(library, name));
  REQUIRE(function != nullptr);
  return function;
}

/// The driver's handle for a kernel that is in no library.
inline void* handle_of(const fake::FakeKernel& kernel) {
  return from_fake<void*(const fake::FakeKernel*)>("fake_cuda_kernel")(&kernel);
}

/// Handles of the driver that exist.
inline int live() {
  return from_fake<int()>("fake_cuda_live")();
}

/// How much work was started since the last call on streams of the primary context, or on those of green contexts.
inline int take_work(bool green) {
  return from_fake<int(bool)>("fake_cuda_take_work")(green);
}

/// CUDA_ERROR_INVALID_HANDLE
inline constexpr int invalid_handle = 400;

/// Lets a function of the driver fail for as long as this object lives.
struct Fault {
  Fault(const char* function, int result) : api(function) {
    from_fake<void(const char*, int)>("fake_cuda_fail")(api, result);
  }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
  ~Fault() {
    from_fake<void(const char*, int)>("fake_cuda_fail")(api, 0);
  }

  const char* api;
};

/// The first device, as a new object.
inline std::shared_ptr<Device> make_cuda_device() {
  const auto module = load_cuda_module();
  if (!module)
    FAIL(module.error().message());
  const auto devices = (*module)->devices();
  REQUIRE(devices);
  auto device = (*module)->device((*devices)[0]);
  REQUIRE(device);
  return *device;
}

} // namespace gpuactors::test
