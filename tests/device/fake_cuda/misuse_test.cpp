// That the driver for tests ends a process that uses it wrongly: each case has a process of its own, which says why.
#include <gpuactors/device/context.hpp>

#include <device/fake_cuda/driver.hpp>
#include <device/fake_driver.hpp>

#include <array>
#include <cstdint>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// A function of the driver, by its name there.
template <class F>
F* api(const char* name) {
  using Find = CUresult(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  REQUIRE(from_fake<Find>("cuGetProcAddress_v2")(name, &function, CUDA_VERSION, 0, &status) == CUDA_SUCCESS);
  REQUIRE(function != nullptr);
  return reinterpret_cast<F*>(function);
}

/// How the thread takes captures of others from now on.
void take_captures(CUstreamCaptureMode mode) {
  REQUIRE(api<CUresult(CUstreamCaptureMode*)>("cuThreadExchangeStreamCaptureMode")(&mode) == CUDA_SUCCESS);
}

/// Makes the device's context the current one, on a thread that disturbs no capture. @returns a stream of it.
CUstream enter(CUdevice device) {
  (void)make_cuda_device(); // loads the driver
  take_captures(CU_STREAM_CAPTURE_MODE_RELAXED);
  CUcontext context = nullptr;
  REQUIRE(api<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, device) == CUDA_SUCCESS);
  REQUIRE(api<CUresult(CUcontext)>("cuCtxPushCurrent")(context) == CUDA_SUCCESS);
  CUstream stream = nullptr;
  REQUIRE(api<CUresult(CUstream*, unsigned)>("cuStreamCreate")(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  return stream;
}

CUlibrary load() {
  static const std::array<char, 8> code{};
  using Load = CUresult(CUlibrary*, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned);
  CUlibrary library = nullptr;
  REQUIRE(api<Load>("cuLibraryLoadData")(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0)
          == CUDA_SUCCESS);
  return library;
}

/// One of the kernels that the driver knows by itself: it computes on nothing.
CUkernel kernel_of(CUlibrary library) {
  CUkernel kernel = nullptr;
  REQUIRE(api<CUresult(CUkernel*, CUlibrary, const char*)>("cuLibraryGetKernel")(&kernel, library, "square_plus")
          == CUDA_SUCCESS);
  return kernel;
}

void launch(CUkernel kernel, CUstream stream) {
  std::uint64_t nothing = 0;
  std::array<void*, 3> arguments{&nothing, &nothing, &nothing};
  using Launch = CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                          void**, void**);
  CHECK(api<Launch>("cuLaunchKernel")(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, stream,
                                      arguments.data(), nullptr)
        == CUDA_SUCCESS);
}

} // namespace

TEST_CASE("a kernel is launched whose library is unloaded", "[.][misuse_unloaded]") {
  auto* const stream = enter(0);
  auto* const library = load();
  auto* const kernel = kernel_of(library);
  launch(kernel, stream);
  REQUIRE(api<CUresult(CUstream)>("cuStreamSynchronize")(stream) == CUDA_SUCCESS);
  REQUIRE(api<CUresult(CUlibrary)>("cuLibraryUnload")(library) == CUDA_SUCCESS);
  launch(kernel, stream);
}

TEST_CASE("a kernel is launched on a stream of another device", "[.][misuse_device]") {
  auto* const other = enter(1);
  auto* const kernel = kernel_of(load());
  launch(kernel, other);
  (void)enter(0);
  launch(kernel, other);
}

TEST_CASE("more is overwritten than was allocated", "[.][misuse_memory]") {
  constexpr std::size_t size = 1U << 20U;
  const auto context = Context::open(make_cuda_device(), {Share::whole(1), 8 * size, "test", nullptr});
  REQUIRE(context);
  const auto buffer = (*context)->stream().allocate(size);
  REQUIRE(buffer);
  auto* const stream = enter(0);
  const auto fill = [&](std::size_t bytes) {
    return api<CUresult(CUdeviceptr, unsigned char, std::size_t, CUstream)>("cuMemsetD8Async")(
        reinterpret_cast<CUdeviceptr>(buffer->data()), 0, bytes, stream);
  };
  CHECK(fill(size) == CUDA_SUCCESS);
  (void)fill(2 * size);
}

TEST_CASE("a stream is looked at while another library captures one", "[.][misuse_capture]") {
  auto* const stream = enter(0);
  take_captures(CU_STREAM_CAPTURE_MODE_GLOBAL);
  (void)api<CUresult(CUstream)>("cuStreamQuery")(stream);
}

TEST_CASE("a library is unloaded while another library captures a stream", "[.][misuse_unload_capture]") {
  (void)enter(0);
  auto* const library = load();
  take_captures(CU_STREAM_CAPTURE_MODE_GLOBAL);
  (void)api<CUresult(CUlibrary)>("cuLibraryUnload")(library);
}
