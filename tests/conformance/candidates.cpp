// Which devices there are to test.
#include <gpuactors/device/cuda_module.hpp>
#include <gpuactors/device/faulty.hpp>
#include <gpuactors/device/host/device.hpp>

#include <conformance/candidates.hpp>
#include <conformance/probe_kernels.hpp>

#include <cstdlib>
#include <iostream>
#include <set>

namespace gpuactors::conformance {

namespace {

std::shared_ptr<Device> make_host() {
  DeviceInfo info;
  info.name = "host";
  info.accelerator_type = "host";
  info.units = 4;
  info.memory_bytes = std::uint64_t{1} << 30;
  return std::make_shared<host::HostDevice>(std::move(info));
}

Result<std::shared_ptr<Device>> make_cuda() {
  GPUACTORS_LET(module, load_cuda_module());
  GPUACTORS_LET(devices, module->devices());
  if (devices.empty())
    return fail(Errc::unsupported, "no CUDA device is visible");
  show_kernels_to_fake_driver();
  return module->device(devices[0]);
}

std::vector<Candidate> make_candidates() {
  const char* chosen = std::getenv("GPUACTORS_CONFORMANCE");
  const auto wants = [chosen](std::string_view name) {
    return chosen == nullptr || std::string_view{chosen}.find(name) != std::string_view::npos;
  };
  std::vector<Candidate> result;
  if (wants("host"))
    result.push_back({"host", make_host()});
  if (wants("faulty"))
    result.push_back(
        {"faulty(host)", std::make_shared<faulty::FaultyDevice>(make_host(), std::make_shared<faulty::Plan>())});
  if (wants("cuda")) {
    auto cuda = make_cuda();
    if (cuda) {
      result.push_back({"cuda", *cuda});
    } else if (chosen != nullptr) {
      std::cerr << "GPUACTORS_CONFORMANCE asks for cuda: " << cuda.error().message() << '\n';
      std::exit(1);
    } else {
      std::cerr << "cuda is skipped: " << cuda.error().message() << '\n';
    }
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
