// Device specifications: what they mean, what is refused in which words, and what a node then offers.
#include <gpuactors/device/absent.hpp>
#include <gpuactors/device/cuda_module.hpp>
#include <gpuactors/device/discovery.hpp>

#include <support/catch.hpp>

using namespace gpuactors;
using Form = DeviceOffer::Form;

namespace {

/// A CUDA module with devices that exist on paper.
class PaperCuda final : public CudaModule {
public:
  explicit PaperCuda(std::vector<std::string> uuids) {
    for (auto& uuid : uuids) {
      DeviceInfo info;
      info.kind = DeviceKind::cuda;
      info.index = info.ordinal = static_cast<int>(list_.size());
      info.name = "NVIDIA H200";
      info.accelerator_type = "H200";
      info.uuid = std::move(uuid);
      info.memory_bytes = std::uint64_t{140} << 30;
      info.units = 132;
      list_.push_back(info);
    }
  }

  Result<void> start() override {
    return {};
  }

  Result<std::vector<DeviceInfo>> devices() override {
    return list_;
  }

  Result<std::shared_ptr<Device>> device(const DeviceInfo& info) override {
    return std::make_shared<AbsentDevice>(info, "on paper only");
  }

private:
  std::vector<DeviceInfo> list_;
};

DiscoveryOptions options_with(PaperCuda& cuda) {
  DiscoveryOptions options;
  options.node_name = "n0";
  options.hardware_threads = 8;
  options.machine_memory_bytes = std::uint64_t{32} << 30;
  options.cuda = [&cuda]() -> Result<CudaModule*> { return &cuda; };
  return options;
}

DiscoveryOptions options_without_cuda() {
  DiscoveryOptions options;
  options.node_name = "n0";
  options.hardware_threads = 8;
  options.machine_memory_bytes = std::uint64_t{32} << 30;
  options.cuda = []() -> Result<CudaModule*> { return fail(Errc::unsupported, "no CUDA driver"); };
  return options;
}

std::vector<std::shared_ptr<Device>> make(std::string_view text, const DiscoveryOptions& options) {
  const auto specs = parse_device_specs(text);
  REQUIRE(specs);
  auto devices = make_devices(*specs, options);
  REQUIRE(devices);
  return *devices;
}

} // namespace

TEST_CASE("good device specifications are read as they are meant") {
  struct Row {
    std::string_view text;
    DeviceOffer spec;
  };
  const std::vector<Row> rows{
      {"cuda", {Form::cuda_all, {}, 1, 0, "host"}},
      {"cuda:GPU-1234", {Form::cuda_uuids, {"GPU-1234"}, 1, 0, "host"}},
      {"cuda:GPU-1,MIG-2", {Form::cuda_uuids, {"GPU-1", "MIG-2"}, 1, 0, "host"}},
      {"cuda*4", {Form::cuda_count, {}, 4, 0, "host"}},
      {"host", {Form::host, {}, 1, 0, "host"}},
      {"host:4", {Form::host, {}, 4, 0, "host"}},
      {"host:4096", {Form::host, {}, 4096, 0, "host"}},
      {"host:2x512MiB", {Form::host, {}, 2, std::uint64_t{512} << 20, "host"}},
      {"host:4x1GiB@V100", {Form::host, {}, 4, std::uint64_t{1} << 30, "V100"}},
      {"host:1@A100-80GB", {Form::host, {}, 1, 0, "A100-80GB"}},
      {"  host:1\t", {Form::host, {}, 1, 0, "host"}},
  };
  for (const auto& row : rows) {
    INFO(row.text);
    const auto specs = parse_device_specs(row.text);
    REQUIRE(specs);
    REQUIRE(specs->size() == 1);
    CHECK((*specs)[0] == row.spec);
  }
}

TEST_CASE("several specifications are read in their order, and none is no error") {
  const auto specs = parse_device_specs("host:1@V100 cuda*2\n host:2");
  REQUIRE(specs);
  REQUIRE(specs->size() == 3);
  CHECK((*specs)[1].form == Form::cuda_count);
  const auto none = parse_device_specs("  ");
  REQUIRE(none);
  CHECK(none->empty());
}

TEST_CASE("bad device specifications are refused with the place and what would be right") {
  for (const std::string_view text : {"gpu",
                                      "CUDA",
                                      "cuda:",
                                      "cuda:0",
                                      "cuda:GPU-1,",
                                      "cuda:GPU-1,GPU-1",
                                      "cuda*",
                                      "cuda*0",
                                      "cuda*-1",
                                      "cuda*4097",
                                      "cuda*2x",
                                      "host:",
                                      "host:0",
                                      "host:-1",
                                      "host:1.5",
                                      "host:4097",
                                      "host:99999999999",
                                      "host:x1GiB",
                                      "host:2x",
                                      "host:2x0",
                                      "host:2x256",
                                      "host:2xlots",
                                      "host:2x-1GiB",
                                      "host:1@",
                                      "host:1@a/b",
                                      "host:1@V100@V100",
                                      "hosts:1",
                                      "host:1 nope"}) {
    INFO(text);
    const auto specs = parse_device_specs(text);
    REQUIRE_FALSE(specs);
    CHECK(specs.error().code() == Errc::invalid_argument);
    CHECK(specs.error().message().find("host:4x1GiB@V100") != std::string::npos);
  }
}

TEST_CASE("host devices divide the machine, and carry stable names") {
  const auto devices = make("host:2@V100 host:2x1GiB", options_without_cuda());
  REQUIRE(devices.size() == 4);
  for (int i = 0; i < 4; ++i) {
    const auto& info = devices[static_cast<std::size_t>(i)]->info();
    CHECK(info.index == i);
    CHECK(info.units == 2);
    CHECK(info.uuid == "host-n0-" + std::to_string(i));
    CHECK(info.memory_bytes == std::uint64_t{i < 2 ? 4U : 1U} << 30);
    CHECK(info.accelerator_type == (i < 2 ? "V100" : "host"));
  }
  CHECK(make("host:16", options_without_cuda())[15]->info().units == 1);
}

TEST_CASE("without a specification a node offers CUDA if there is any, else one host device") {
  PaperCuda two{{"GPU-a", "GPU-b"}};
  const auto cuda = make("", options_with(two));
  REQUIRE(cuda.size() == 2);
  CHECK(cuda[1]->info().kind == DeviceKind::cuda);
  PaperCuda none{{}};
  CHECK(make("", options_with(none))[0]->info().kind == DeviceKind::host);
  const auto host = make("", options_without_cuda());
  REQUIRE(host.size() == 1);
  CHECK(host[0]->info().kind == DeviceKind::host);
  CHECK(host[0]->info().units == 8);
}

TEST_CASE("without a specification, a driver that does not work now is no reason to go on without GPUs") {
  auto options = options_without_cuda();
  options.cuda = []() -> Result<CudaModule*> { return fail(Errc::unavailable, "cuInit: CUDA_ERROR_SYSTEM_NOT_READY"); };
  const auto devices = make_devices({}, options);
  REQUIRE_FALSE(devices);
  CHECK(devices.error().code() == Errc::unavailable);
  CHECK(devices.error().message()
        == "cuInit: CUDA_ERROR_SYSTEM_NOT_READY; name the devices to go on without GPUs, as host:1");
  options.cuda = []() -> Result<CudaModule*> { return fail(Errc::device_lost, "cuInit: CUDA_ERROR_NO_DEVICE"); };
  CHECK(make("", options)[0]->info().kind == DeviceKind::host);
}

TEST_CASE("cuda without CUDA says why") {
  const auto specs = parse_device_specs("cuda");
  const auto devices = make_devices(*specs, options_without_cuda());
  REQUIRE_FALSE(devices);
  CHECK(devices.error().message() == "no CUDA driver");
}

TEST_CASE("devices are chosen by UUID, in the order named") {
  PaperCuda cuda{{"GPU-aa", "GPU-ab", "GPU-c"}};
  const auto devices = make("cuda:GPU-c,GPU-ab", options_with(cuda));
  REQUIRE(devices.size() == 2);
  CHECK(devices[0]->info().uuid == "GPU-c");
  CHECK(devices[0]->info().index == 2);
  CHECK(devices[1]->info().ordinal == 1);
  const auto unknown = make_devices(*parse_device_specs("cuda:GPU-x"), options_with(cuda));
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code() == Errc::not_found);
  CHECK(unknown.error().message() == "no CUDA devices are named GPU-x; visible are: GPU-aa, GPU-ab, GPU-c");
  const auto unclear = make_devices(*parse_device_specs("cuda:GPU-a"), options_with(cuda));
  REQUIRE_FALSE(unclear);
  CHECK(unclear.error().code() == Errc::invalid_argument);
  CHECK_FALSE(make_devices(*parse_device_specs("cuda cuda:GPU-c"), options_with(cuda)));
}

TEST_CASE("a node may offer more CUDA devices than exist, and using one that does not is a clear error") {
  PaperCuda one{{"GPU-a"}};
  const auto devices = make("cuda*3", options_with(one));
  REQUIRE(devices.size() == 3);
  CHECK(devices[2]->info().accelerator_type == "H200");
  CHECK(devices[2]->info().index == 2);
  const auto opened = devices[2]->open({});
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code() == Errc::device_lost);
  CHECK(opened.error().message() == "CUDA device 2 does not exist: 3 were offered (cuda*3) and 1 found");
  const auto absent = make("cuda*2", options_without_cuda());
  REQUIRE(absent.size() == 2);
  CHECK(absent[0]->open({}).error().message()
        == "CUDA device 0 does not exist: 2 were offered (cuda*2) and 0 found (no CUDA driver)");
}

TEST_CASE("indices in CUDA_VISIBLE_DEVICES are the devices' indices on the node") {
  PaperCuda two{{"GPU-b", "GPU-d"}};
  auto options = options_with(two);
  options.visible_devices = "1,3";
  const auto devices = make("cuda host:2", options);
  REQUIRE(devices.size() == 4);
  CHECK(devices[0]->info().index == 1);
  CHECK(devices[0]->info().ordinal == 0);
  CHECK(devices[1]->info().index == 3);
  CHECK(devices[2]->info().index == 0);
  CHECK(devices[3]->info().index == 2);
  options.visible_devices = "GPU-b,GPU-d";
  CHECK(make("cuda", options)[1]->info().index == 1);
}

TEST_CASE("CUDA_VISIBLE_DEVICES limits a full list as the driver does") {
  std::vector<DeviceInfo> all(4);
  for (int i = 0; i < 4; ++i) {
    all[static_cast<std::size_t>(i)].index = i;
    all[static_cast<std::size_t>(i)].uuid = std::string{i < 3 ? "GPU-" : "MIG-"} + static_cast<char>('a' + i) + "x";
  }
  const auto indices = [&](std::optional<std::string> visible) {
    std::vector<int> result;
    for (const auto& info : limit_to_visible(all, visible))
      result.push_back(info.index);
    return result;
  };
  using List = std::vector<int>;
  CHECK(indices(std::nullopt) == List{0, 1, 2, 3});
  CHECK(indices("") == List{});
  CHECK(indices("1,3") == List{1, 3});
  CHECK(indices("3, 1") == List{3, 1});
  CHECK(indices("GPU-b") == List{1});
  CHECK(indices("GPU-cx,MIG-d,0") == List{2, 3, 0});
  CHECK(indices("0,9,1") == List{0});
  CHECK(indices("-1") == List{});
  CHECK(indices("2,NoDevFiles") == List{2});
  CHECK(indices("GPU-") == List{});
  CHECK(indices("1,1") == List{});
  CHECK(limit_to_visible(all, "3,1")[1].ordinal == 1);
}

TEST_CASE("accelerator types are the names that users know") {
  CHECK(accelerator_type_of("NVIDIA H200") == "H200");
  CHECK(accelerator_type_of("NVIDIA H100 80GB HBM3") == "H100");
  CHECK(accelerator_type_of("NVIDIA A100-SXM4-80GB") == "A100-80GB");
  CHECK(accelerator_type_of("NVIDIA A100 80GB PCIe") == "A100-80GB");
  CHECK(accelerator_type_of("Tesla V100-SXM2-16GB") == "V100");
  CHECK(accelerator_type_of("Tesla T4") == "T4");
  CHECK(accelerator_type_of("NVIDIA L40S") == "L40S");
  CHECK(accelerator_type_of("NVIDIA GeForce RTX 4090") == "RTX-4090");
  CHECK(accelerator_type_of("NVIDIA H100 80GB HBM3 MIG 1g.10gb") == "H100-MIG-1g.10gb");
  CHECK(accelerator_type_of("") == "cuda");
}
