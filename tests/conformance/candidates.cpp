// Which devices there are to test.
#include <gpuactors/device/cuda_module.hpp>
#include <gpuactors/device/faulty.hpp>
#include <gpuactors/device/host/device.hpp>

#include <conformance/candidates.hpp>
#include <conformance/probe_kernels.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <set>
#include <sstream>

namespace gpuactors::conformance {

namespace {

Result<std::shared_ptr<Device>> make_host() {
  DeviceInfo info;
  info.name = "host";
  info.accelerator_type = "host";
  info.units = 4;
  info.memory_bytes = std::uint64_t{1} << 30;
  return std::make_shared<host::HostDevice>(std::move(info));
}

Result<std::shared_ptr<Device>> open_cuda() {
  GPUACTORS_LET(module, load_cuda_module());
  GPUACTORS_LET(devices, module->devices());
  if (devices.empty())
    return fail(Errc::unsupported, "no CUDA device is visible");
  show_kernels_to_fake_driver();
  return module->device(devices[0]);
}

/// One device, also where it is decorated: its memory is divided among the contexts of one object.
Result<std::shared_ptr<Device>> make_cuda() {
  static const auto device = open_cuda();
  return device;
}

template <Result<std::shared_ptr<Device>> (*Make)()>
Result<std::shared_ptr<Device>> make_faulty() {
  GPUACTORS_LET(inner, Make());
  return std::make_shared<faulty::FaultyDevice>(std::move(inner), std::make_shared<faulty::Plan>());
}

struct Kind {
  std::string name;
  Result<std::shared_ptr<Device>> (*make)();
  /// By which it is chosen together with others.
  std::string group;
};

const Kind kinds[] = {
    {"host", &make_host, "host"},
    {"faulty(host)", &make_faulty<&make_host>, "faulty"},
    {"cuda", &make_cuda, "cuda"},
    {"faulty(cuda)", &make_faulty<&make_cuda>, "faulty"},
};

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  std::cerr << "GPUACTORS_CONFORMANCE asks for " << name << ": " << why << '\n';
  std::exit(1);
}

/// The names in GPUACTORS_CONFORMANCE; none: all devices that are there.
std::set<std::string> chosen_names() {
  const char* chosen = std::getenv("GPUACTORS_CONFORMANCE");
  std::istringstream list{chosen != nullptr ? chosen : ""};
  std::set<std::string> names;
  for (std::string name; std::getline(list, name, ',');) {
    const auto is_it = [&name](const Kind& kind) { return kind.name == name || kind.group == name; };
    if (std::none_of(std::begin(kinds), std::end(kinds), is_it))
      refuse(name, "there is no such device");
    names.insert(name);
  }
  return names;
}

std::vector<Candidate> make_candidates() {
  const auto names = chosen_names();
  std::vector<Candidate> result;
  for (const auto& kind : kinds) {
    const bool is_named = names.contains(kind.name);
    if (!names.empty() && !is_named && !names.contains(kind.group))
      continue;
    auto device = kind.make();
    if (device)
      result.push_back({kind.name, std::move(*device)});
    else if (is_named)
      refuse(kind.name, device.error().message());
    else
      std::cerr << kind.name << " is skipped: " << device.error().message() << '\n';
  }
  return result;
}

} // namespace

const std::vector<Candidate>& candidates() {
  // Never destroyed: a device may need what is destroyed before static objects are.
  static const auto* all = new std::vector<Candidate>{make_candidates()};
  return *all;
}

void load_kernels(const Candidate& candidate) {
  static std::set<std::string> known;
  if (!known.insert(candidate.name).second)
    return;
  auto context = Context::open(candidate.device, {Share{Share::one / 2}, test_memory, "loader", nullptr});
  REQUIRE(context);
  auto& stream = (*context)->stream();
  auto gate = stream.tensor_from(std::vector<std::int32_t>{1, 0}, {2});
  REQUIRE(gate);
  auto* word = static_cast<std::uint32_t*>(gate->raw());
  REQUIRE(stream.launch(await_gate, 1, word, word + 1));
  REQUIRE(stream.launch(open_gate, 1, word));
  REQUIRE(stream.launch(mix, 1, 1U, word));
  REQUIRE(stream.synchronize());
}

std::unique_ptr<Context> open(const Candidate& candidate, std::uint64_t memory_bytes, std::string holder) {
  load_kernels(candidate);
  auto context = Context::open(candidate.device, {Share{Share::one / 2}, memory_bytes, std::move(holder), nullptr});
  if (!context)
    FAIL(context.error().message());
  return std::move(*context);
}

} // namespace gpuactors::conformance
