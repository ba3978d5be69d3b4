// When kernels are loaded, on the fake driver: at a launch the real one may wait for the whole device.
#include <gpuactors/device/context.hpp>

#include <device/fake_cuda/library_kernels.hpp>
#include <device/fake_cuda/show_kernels.hpp>
#include <device/fake_driver.hpp>

#include <memory>
#include <string_view>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

const fake::FakeKernel* find_stored(const char* entry) {
  using namespace fake;
  static const FakeKernel all[] = {fake_kernel(library_store), fake_kernel(library_store_too),
                                   fake_kernel(program_store), fake_kernel(program_store_too)};
  for (const auto& kernel : all)
    if (kernel.entry == std::string_view{entry})
      return &kernel;
  return nullptr;
}

/// The device, once the driver knows the kernels: it is asked what there is when a context opens for the first time,
/// for which these tests have a process of their own.
std::shared_ptr<Device> make_device() {
  auto device = make_cuda_device();
  fake::show_kernels(&find_stored);
  return device;
}

std::unique_ptr<Context> open_share(const std::shared_ptr<Device>& device, Share share = Share{Share::one / 4}) {
  auto context = Context::open(device, {share, std::uint64_t{64} << 20, "test", nullptr});
  if (!context)
    FAIL(context.error().message());
  return std::move(*context);
}

int loading_launches() {
  return from_fake<int()>("fake_cuda_loading_launches")();
}

/// Launches it there. @returns how many kernels that has loaded.
int launch(Context& context, const KernelOf<fake::Store>& kernel) {
  const auto before = loading_launches();
  auto out = context.stream().tensor_from(std::vector<std::int32_t>{0}, {1});
  REQUIRE(out);
  REQUIRE(context.stream().launch(kernel, 1, 7, out->data<std::int32_t>()));
  CHECK(*context.stream().to_host<std::int32_t>(*out) == std::vector<std::int32_t>{7});
  return loading_launches() - before;
}

/// Whether the kernels have code for CUDA in this build.
bool have_code() {
  return fake::library_store.info.image->size() > 0;
}

} // namespace

TEST_CASE("kernels of a shared library are loaded when a context opens, and not when they are launched", "[.][code]") {
  if (!have_code())
    return;
  // Another life of the primary context has to load them anew.
  (void)open_share(make_device());
  const auto device = make_device();
  const auto quarter = open_share(device);
  const auto other = open_share(device);
  const auto whole = open_share(device, Share::whole(1));
  for (auto* context : {quarter.get(), other.get(), whole.get()}) {
    CHECK(launch(*context, fake::library_store) == 0);
    CHECK(launch(*context, fake::library_store_too) == 0);
  }
}

TEST_CASE("of a program's own kernels the first launch loads all, for the device and for contexts that come later",
          "[.][code]") {
  if (!have_code())
    return;
  const auto device = make_device();
  const auto whole = open_share(device, Share::whole(1));
  (void)launch(*whole, fake::program_store);
  CHECK(launch(*whole, fake::program_store_too) == 0);
  const auto later = open_share(device);
  CHECK(launch(*later, fake::program_store) == 0);
  CHECK(launch(*later, fake::program_store_too) == 0);
}

TEST_CASE("who gets the SMs of one that is gone has the kernels that were not known to that one", "[.][code]") {
  if (!have_code())
    return;
  const auto device = make_device();
  (void)open_share(device);
  const auto whole = open_share(device, Share::whole(1));
  (void)launch(*whole, fake::program_store);
  const auto later = open_share(device);
  CHECK(launch(*later, fake::program_store) == 0);
  CHECK(launch(*later, fake::program_store_too) == 0);
}

TEST_CASE("the first launch on a second device loads all kernels of a program there, too", "[.][second_device]") {
  if (!have_code())
    return;
  const auto module = load_cuda_module();
  REQUIRE(module);
  const auto devices = (*module)->devices();
  REQUIRE(devices);
  fake::show_kernels(&find_stored);
  // Both open before anything is launched: what is known then is loaded there.
  std::vector<std::unique_ptr<Context>> contexts;
  for (const auto& info : *devices)
    contexts.push_back(open_share(*(*module)->device(info), Share::whole(1)));
  REQUIRE(contexts.size() == 2);
  for (const auto& context : contexts) {
    (void)launch(*context, fake::program_store);
    CHECK(launch(*context, fake::program_store_too) == 0);
  }
}
