// Who loads or unloads code keeps nobody else from kernels that are there: the driver may wait for the device then.
#include <gpuactors/device/cuda/images.hpp>
#include <gpuactors/device/cuda/runtime_kernels.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <utility>

using namespace gpuactors;
using namespace gpuactors::cuda;

namespace {

/// A call of the driver that takes until it is let go, for the one who is to be held.
struct Gate {
  std::atomic<bool> armed{false};
  std::promise<void> reached;
  std::promise<void> opened;

  void pass() {
    if (!armed.exchange(false))
      return;
    reached.set_value();
    opened.get_future().wait();
  }
};

Gate* loading;
Gate* unloading;
std::atomic<int> loaded;
std::atomic<int> made;
/// How often a library was unloaded by a thread that breaks captures of others.
std::atomic<int> disturbing;
thread_local CUstreamCaptureMode mode_here = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// As much of a driver as is needed. Each library is a number, as its one kernel is.
Driver make_driver() {
  loaded = made = 0;
  Driver driver;
  disturbing = 0;
  driver.thread_exchange_capture_mode = [](CUstreamCaptureMode* mode) {
    std::swap(mode_here, *mode);
    return CUDA_SUCCESS;
  };
  driver.library_load_data = [](CUlibrary* library, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*,
                                void**, unsigned) {
    loading->pass();
    ++loaded;
    *library = reinterpret_cast<CUlibrary>(static_cast<std::uintptr_t>(++made)); // NOLINT(*-int-to-ptr): a number
    return CUDA_SUCCESS;
  };
  driver.library_unload = [](CUlibrary) {
    disturbing += mode_here == CU_STREAM_CAPTURE_MODE_RELAXED ? 0 : 1;
    unloading->pass();
    --loaded;
    return CUDA_SUCCESS;
  };
  driver.library_get_kernel = [](CUkernel* kernel, CUlibrary library, const char*) {
    *kernel = reinterpret_cast<CUkernel>(library);
    return CUDA_SUCCESS;
  };
  return driver;
}

struct Gates {
  Gate load;
  Gate unload;

  Gates() {
    loading = &load;
    unloading = &unload;
  }
};

const unsigned char bytes[2] = {1, 2};

} // namespace

TEST_CASE("while an image is loaded, kernels of others are found") {
  Gates gates;
  const auto driver = make_driver();
  Images images{driver};
  const KernelImage slow{bytes, bytes + 1};
  const KernelImage quick{bytes + 1, bytes + 2};
  gates.load.armed = true;
  std::thread loader{[&] { CHECK(images.find({"slow", nullptr, &slow}, 0)); }};
  gates.load.reached.get_future().wait();
  CHECK(images.find({"quick", nullptr, &quick}, 0));
  CHECK(loaded == 1);
  gates.load.opened.set_value();
  loader.join();
  CHECK(loaded == 2);
}

TEST_CASE("where a driver is older than the PTX that it is given, the error says what to do") {
  Gates gates;
  auto driver = make_driver();
  driver.version = 12020;
  driver.library_load_data = [](CUlibrary*, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                                unsigned) { return CUDA_ERROR_UNSUPPORTED_PTX_VERSION; };
  Images images{driver};
  const KernelImage image{bytes, bytes + 1};
  const auto refused = images.find({"scale", nullptr, &image}, 0);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::unsupported);
  const auto& text = refused.error().message();
  INFO(text);
  CHECK(text.starts_with("cuLibraryLoadData: an error unknown to this driver (222) on device 0, image of kernel scale, "
                         "1 B; there is no machine code for this GPU, and its driver (CUDA 12.2) takes no PTX"));
  CHECK(text.ends_with("update the driver, or build with code for this GPU (GPUACTORS_CUDA_GENCODE)"));
}

TEST_CASE("an image that two want at once is loaded once") {
  Gates gates;
  const auto driver = make_driver();
  Images images{driver};
  const KernelImage image{bytes, bytes + 1};
  gates.load.armed = true;
  CUkernel theirs = nullptr;
  std::thread loader{[&] { theirs = *images.find({"kernel", nullptr, &image}, 0); }};
  gates.load.reached.get_future().wait();
  CUkernel ours = nullptr;
  std::thread other{[&] { ours = *images.find({"kernel", nullptr, &image}, 0); }};
  gates.load.opened.set_value();
  loader.join();
  other.join();
  CHECK(loaded == 1);
  CHECK(ours == theirs);
}

TEST_CASE("while a kernel from source is loaded or another one unloaded, those that are there are found") {
  if (!Compiler::get())
    return;
  Gates gates;
  const auto driver = make_driver();
  ::setenv("GPUACTORS_KERNEL_CACHE", "", 1);
  RuntimeKernels kernels{driver, 1};
  const auto find = [&](const char* name) {
    return kernels.find({"extern \"C\" __global__ void a() {}\nextern \"C\" __global__ void b() {}\n"
                         "extern \"C\" __global__ void c() {}\n",
                         name},
                        90, 0);
  };
  const auto held = find("a");
  REQUIRE(held);
  gates.load.armed = true;
  std::thread loader{[&] { CHECK(find("b")); }};
  gates.load.reached.get_future().wait();
  CHECK(find("a"));
  // Somebody else loads the same meanwhile: that stays, and what comes second goes.
  {
    const auto first = find("b");
    REQUIRE(first);
    gates.load.opened.set_value();
    loader.join();
    CHECK(find("b")->loaded().native == first->loaded().native);
    CHECK(test::eventually([] { return loaded == 2; }));
  }
  CHECK(disturbing == 0);

  gates.unload.armed = true;
  std::thread unloader{[&] { CHECK(find("c")); }};
  gates.unload.reached.get_future().wait();
  CHECK(find("a"));
  gates.unload.opened.set_value();
  unloader.join();
}
