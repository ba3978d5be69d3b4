// The management library on a fake one: what is there, joined by UUID, how far apart, and what happened to it.
#include <gpuactors/device/absent.hpp>
#include <gpuactors/device/cuda_module.hpp>
#include <gpuactors/device/discovery.hpp>
#include <gpuactors/device/nvml/watch.hpp>

#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <device/fake_nvml/nvml.hpp>
#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

using namespace gpuactors;
using namespace gpuactors::nvml;
using namespace std::chrono_literals;

namespace {

template <class F>
F* from_fake(const char* name) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  auto* function = reinterpret_cast<F*>(dlsym(library, name));
  REQUIRE(function != nullptr);
  return function;
}

Monitor& monitor() {
  const auto loaded = Monitor::get();
  if (!loaded)
    FAIL(loaded.error().message());
  return **loaded;
}

/// A CUDA module that shows some of the GPUs, in CUDA's order.
class PaperCuda final : public CudaModule {
public:
  explicit PaperCuda(std::vector<std::string> uuids) : uuids_(std::move(uuids)) {
    // nop
  }

  Result<void> start() override {
    return {};
  }

  Result<std::vector<DeviceInfo>> devices() override {
    std::vector<DeviceInfo> list;
    for (const auto& uuid : uuids_) {
      DeviceInfo info;
      info.kind = DeviceKind::cuda;
      info.index = info.ordinal = static_cast<int>(list.size());
      info.uuid = uuid;
      list.push_back(info);
    }
    return list;
  }

  Result<std::shared_ptr<Device>> device(const DeviceInfo& info) override {
    return std::make_shared<AbsentDevice>(info, "on paper only");
  }

private:
  std::vector<std::string> uuids_;
};

std::vector<DeviceInfo> discover(PaperCuda& cuda, std::optional<std::string> visible = std::nullopt,
                                 Monitor& asked = monitor()) {
  DiscoveryOptions options;
  options.visible_devices = std::move(visible);
  options.cuda = [&cuda]() -> Result<CudaModule*> { return &cuda; };
  options.gpus = [&asked] { return asked.list(); };
  const auto devices = make_devices(*parse_device_specs("cuda"), options);
  REQUIRE(devices);
  std::vector<DeviceInfo> result;
  for (const auto& device : *devices)
    result.push_back(device->info());
  return result;
}

} // namespace

TEST_CASE("GPUs and the slices of one that is divided are listed, holes left out") {
  const auto gpus = monitor().list();
  REQUIRE(gpus);
  REQUIRE(gpus->size() == 3);
  CHECK((*gpus)[0].uuid == fake::second_uuid);
  CHECK((*gpus)[0].name == "NVIDIA H100 80GB HBM3");
  CHECK((*gpus)[0].memory_bytes == std::uint64_t{80} << 30);
  CHECK_FALSE((*gpus)[0].mig);
  CHECK((*gpus)[2].mig);
  REQUIRE((*gpus)[2].slices.size() == 2);
  CHECK((*gpus)[2].slices[0].uuid == fake::slice_uuid);
  CHECK((*gpus)[2].slices[0].sms == 42);
  CHECK((*gpus)[2].slices[1].memory_bytes == std::uint64_t{5} << 30);
}

TEST_CASE("what CUDA shows and what the library knows are joined by UUID, not by index") {
  const test::TemporaryFolder root;
  for (const auto* entry : {"3b 7", "3c 5"}) {
    const auto folder = root.path() / "sys/bus/pci/devices" / ("0000:" + std::string{entry, 2} + ":00.0");
    std::filesystem::create_directories(folder);
    std::ofstream{folder / "numa_node"} << entry + 3 << '\n';
  }
  const auto library = load_library();
  REQUIRE(library);
  Monitor asked{*library, root.path()};
  PaperCuda cuda{{fake::first_uuid, fake::second_uuid}};
  const auto devices = discover(cuda, "GPU-00,GPU-01", asked);
  REQUIRE(devices.size() == 2);
  // On buses 3c and 3b: the library counts the other way round.
  CHECK(devices[0].numa_node == 5);
  CHECK(devices[1].numa_node == 7);
}

TEST_CASE("MIG devices are devices of their own, also those that CUDA does not show here") {
  PaperCuda cuda{{fake::slice_uuid}};
  const auto devices = discover(cuda);
  REQUIRE(devices.size() == 4);
  CHECK(devices[0].uuid == fake::slice_uuid);
  CHECK(devices[0].ordinal == 0);
  CHECK(devices[1].uuid == fake::second_uuid);
  CHECK(devices[2].uuid == fake::first_uuid);
  CHECK(devices[3].uuid == fake::other_slice_uuid);
  CHECK(devices[3].accelerator_type == "A100-40GB-MIG-1g.5gb");
  CHECK(devices[3].memory_bytes == (std::uint64_t{5} << 30) - (std::uint64_t{512} << 20));
  CHECK(devices[3].units == 14);
  CHECK(devices[3].index == 3);
  CHECK(devices[3].ordinal == -1);
}

TEST_CASE("a value of CUDA_VISIBLE_DEVICES hides MIG devices that it does not name") {
  PaperCuda cuda{{fake::slice_uuid}};
  const auto named = [&](const char* value) {
    std::vector<std::string> uuids;
    for (const auto& info : discover(cuda, value))
      uuids.push_back(info.uuid);
    return uuids;
  };
  CHECK(named("MIG-1111") == std::vector<std::string>{fake::slice_uuid});
  CHECK(named("MIG-1111, MIG-2222") == std::vector<std::string>{fake::slice_uuid, fake::other_slice_uuid});
  // In the machine's order: who takes one names it by its UUID.
  CHECK(named("MIG-2222 , MIG-1111 ") == std::vector<std::string>{fake::slice_uuid, fake::other_slice_uuid});
  CHECK(named("0") == std::vector<std::string>{fake::slice_uuid});
}

TEST_CASE("a device that only a process of its own can see says so") {
  PaperCuda cuda{{fake::slice_uuid}};
  DiscoveryOptions options;
  options.cuda = [&cuda]() -> Result<CudaModule*> { return &cuda; };
  options.gpus = [] { return monitor().list(); };
  const auto devices = make_devices(*parse_device_specs("cuda:MIG-2"), options);
  REQUIRE(devices);
  const auto refused = (*devices)[0]->open({});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().find("is visible to a process of its own only") != std::string::npos);
  // A worker that is shown it finds it; one that is not says so.
  auto info = (*devices)[0]->info();
  CHECK(open_devices({info}, options).error().code() == Errc::not_found);
  PaperCuda own{{fake::other_slice_uuid}};
  options.cuda = [&own]() -> Result<CudaModule*> { return &own; };
  const auto opened = open_devices({info}, options);
  REQUIRE(opened);
  CHECK((*opened)[0]->info().ordinal == 0);
  CHECK((*opened)[0]->info().index == info.index);
}

TEST_CASE("GPUs that are linked are close, others as far as the machine has it") {
  CHECK(*monitor().distance(fake::first_uuid, fake::second_uuid) == 1);
  CHECK(*monitor().distance(fake::first_uuid, fake::other_slice_uuid) == 8);
  CHECK(*monitor().distance(fake::slice_uuid, fake::other_slice_uuid) == 0);
  CHECK(monitor().distance(fake::first_uuid, "GPU-none").error()
        == Error{Errc::not_found, "there is no GPU GPU-none on this machine"});
  CHECK(distances_between({fake::first_uuid, "host-n0-0", fake::second_uuid})
        == std::vector<int>{0, 1000, 1, 1000, 0, 1000, 1, 1000, 0});
  CHECK(distances_between({"host-n0-0", "host-n0-1"}).empty());
}

TEST_CASE("a GPU says how it does, a slice what it can") {
  const auto status = monitor().status(fake::first_uuid);
  REQUIRE(status);
  CHECK(status->memory_free == std::uint64_t{60} << 30);
  CHECK(status->gpu_percent == 70);
  CHECK(status->uncorrected_errors == 4U);
  CHECK_FALSE(status->milliwatts);
  const auto slice = monitor().status(fake::slice_uuid);
  REQUIRE(slice);
  CHECK(slice->memory_total == std::uint64_t{20} << 30);
  CHECK_FALSE(slice->gpu_percent);
}

TEST_CASE("a GPU that is lost is left out of the list, and is an error where it is asked for") {
  from_fake<void(int, int)>("fake_nvml_break")(0, gpu_is_lost);
  CHECK(monitor().list()->size() == 2);
  CHECK(monitor().status(fake::second_uuid).error().code() == Errc::not_found);
  from_fake<void(int, int)>("fake_nvml_break")(0, 0);
  CHECK(monitor().list()->size() == 3);
  from_fake<void(int, int)>("fake_nvml_break")(0, gpu_is_lost);
  CHECK(monitor().status(fake::second_uuid).error()
        == Error{Errc::device_lost, "nvmlDeviceGetMemoryInfo: GPU is lost (15)"});
  from_fake<void(int, int)>("fake_nvml_break")(0, 0);
}

TEST_CASE("events come with the GPU that they are of and what they mean") {
  CHECK_FALSE(monitor().wait(0ms)->has_value());
  const auto post = from_fake<void(int, std::uint64_t, std::uint64_t)>("fake_nvml_post");
  post(1, xid_critical, 79);
  post(0, xid_critical, 31);
  post(0, double_bit_ecc, 0);
  const auto first = monitor().wait(0ms);
  REQUIRE(first);
  REQUIRE(*first);
  CHECK((*first)->uuids == std::vector<std::string>{fake::first_uuid});
  CHECK((*first)->severity == Severity::fatal);
  CHECK((*first)->text == "XID 79 (the GPU has fallen off the bus)");
  CHECK((*monitor().wait(0ms))->severity == Severity::program);
  CHECK((*monitor().wait(0ms))->severity == Severity::fatal);
  CHECK_FALSE(monitor().wait(0ms)->has_value());
}

TEST_CASE("an event of a divided GPU is one of its slices too, one of a GPU that does not answer still of it") {
  const auto post = from_fake<void(int, std::uint64_t, std::uint64_t)>("fake_nvml_post");
  post(2, xid_critical, 79);
  CHECK((*monitor().wait(0ms))->uuids
        == std::vector<std::string>{fake::divided_uuid, fake::slice_uuid, fake::other_slice_uuid});
  from_fake<void(int, int)>("fake_nvml_break")(0, gpu_is_lost);
  post(0, xid_critical, 79);
  CHECK((*monitor().wait(0ms))->uuids == std::vector<std::string>{fake::second_uuid});
  from_fake<void(int, int)>("fake_nvml_break")(0, 0);
}

TEST_CASE("all who watch are told of an event, and nobody who has stopped") {
  std::mutex mutex;
  std::condition_variable told;
  std::vector<std::string> first;
  std::vector<std::string> second;
  const auto into = [&](std::vector<std::string>& texts) {
    return [&mutex, &told, &texts](const GpuEvent& event) {
      const std::lock_guard guard{mutex};
      texts.push_back(event.text);
      told.notify_all();
    };
  };
  const auto comes = [&](const std::vector<std::string>& texts, std::size_t count) {
    std::unique_lock lock{mutex};
    return told.wait_for(lock, 10s, [&] { return texts.size() == count; });
  };
  const auto post = from_fake<void(int, std::uint64_t, std::uint64_t)>("fake_nvml_post");
  auto one = Watch::start(into(first));
  auto other = Watch::start(into(second));
  REQUIRE(one);
  REQUIRE(other);
  post(0, xid_critical, 48);
  CHECK(comes(first, 1));
  CHECK(comes(second, 1));
  one->reset();
  post(0, xid_critical, 13);
  CHECK(comes(second, 2));
  other->reset();
  CHECK(first == std::vector<std::string>{"XID 48 (an uncorrectable memory error)"});
  CHECK(second.back() == "XID 13 (an exception in a kernel)");
  // And again, with a thread of its own.
  auto again = Watch::start(into(first));
  REQUIRE(again);
  post(1, double_bit_ecc, 0);
  CHECK(comes(first, 2));
}

TEST_CASE("what nobody knows is fatal, what programs cause is not") {
  CHECK(severity_of(xid_critical, 4711) == Severity::fatal);
  CHECK(describe_event(xid_critical, 4711) == "XID 4711");
  for (const std::uint64_t xid : {8, 13, 31, 41, 43, 45, 68, 69, 109})
    CHECK(severity_of(xid_critical, xid) == Severity::program);
  for (const std::uint64_t xid : {46, 48, 62, 64, 74, 79, 95, 119, 120, 140})
    CHECK(severity_of(xid_critical, xid) == Severity::fatal);
  CHECK(severity_of(xid_critical, 94) == Severity::noted);
  CHECK(severity_of(nonfatal_poison, 0) == Severity::noted);
  CHECK(severity_of(gpu_unavailable, 0) == Severity::fatal);
}

TEST_CASE("a slice that was replaced is not taken for its successor") {
  REQUIRE(monitor().status(fake::slice_uuid));
  from_fake<void()>("fake_nvml_divide_anew")();
  CHECK(monitor().status(fake::slice_uuid).error().code() == Errc::not_found);
  CHECK(monitor().status("MIG-33333333-4455-6677-8899-aabbccddeeff"));
}

// Last, for the GPU stays lost.
TEST_CASE("GPUs that the wait finds lost are an event each, and those of the others go on coming") {
  const auto library = load_library();
  REQUIRE(library);
  Monitor own{*library, "/"};
  CHECK_FALSE(own.wait(0ms)->has_value());
  // Together: nobody can register for the events of one of them any more.
  for (const auto gpu : {1, 2}) {
    from_fake<void(int, int)>("fake_nvml_break")(gpu, gpu_is_lost);
    from_fake<void(int)>("fake_nvml_fall")(gpu);
  }
  std::vector<std::string> lost;
  for (int i = 0; i < 2; ++i) {
    const auto event = own.wait(0ms);
    REQUIRE(event);
    REQUIRE(*event);
    CHECK((*event)->severity == Severity::fatal);
    CHECK((*event)->text == "the GPU is lost");
    lost.push_back((*event)->uuids.front());
  }
  std::sort(lost.begin(), lost.end());
  CHECK(lost == std::vector<std::string>{fake::first_uuid, fake::divided_uuid});
  from_fake<void(int, std::uint64_t, std::uint64_t)>("fake_nvml_post")(0, xid_critical, 79);
  const auto other = own.wait(0ms);
  REQUIRE(other);
  REQUIRE(*other);
  CHECK((*other)->uuids == std::vector<std::string>{fake::second_uuid});
  CHECK_FALSE(own.wait(0ms)->has_value());
}
