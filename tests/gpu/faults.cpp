// Faults in processes of their own: what the others see, and how soon there is a new one.
#include <gpuactors/device/nvml/monitor.hpp>

#include <fmt/format.h>
#include <gpu/child.hpp>
#include <gpu/kernels.hpp>
#include <gpu/lab.hpp>

#include <algorithm>
#include <chrono>
#include <future>
#include <iostream>
#include <memory>
#include <vector>

namespace gpuactors::gpu {

namespace {

struct Ended {
  int code = -1;
  std::string output;
  double ms = 0;
};

/// Runs this program as a child to its end.
Ended run(const char* what) {
  Ended ended;
  ended.ms = milliseconds([&] {
    Child child{what};
    ended.output = child.output();
    ended.code = child.wait();
  });
  return ended;
}

/// A product of ones, to see that a device still computes.
void compute(Context& context) {
  auto& stream = context.stream();
  auto a = must(stream.tensor_from(std::vector<float>(64, 1.0F), {8, 8}));
  auto c = must(stream.tensor(DType::f32, {8, 8}));
  must(stream.gemm(a, a, c));
  if (must(stream.to_host<float>(c))[0] != 8.0F)
    throw Trouble{"a product is wrong"};
}

std::unique_ptr<Context> open_half(const std::shared_ptr<Device>& device) {
  return must(Context::open(device, {Share{Share::one / 2}, std::uint64_t{64} << 20, "child", nullptr}));
}

/// Starts the kernel that does what its name says.
void go_wrong(Context& context, const std::string& how) {
  auto& stream = context.stream();
  if (how == "illegal address")
    must(stream.launch(crash, 1, std::uint64_t{4096}));
  else if (how == "misaligned address")
    must(stream.launch(misstep, 1, static_cast<std::uint32_t*>(must(stream.allocate(64)).release())));
  else if (how == "assertion")
    must(stream.launch(refuse, 1));
  else
    must(stream.launch(trap, 1));
}

} // namespace

int run_child(const std::string& what) {
  if (what.starts_with("lend:"))
    return lend(std::stoul(what.substr(5)));
  try {
    const auto device = must(find_device());
    const auto half = open_half(device);
    compute(*half);
    if (what == "work")
      return 0;
    const auto neighbour = open_half(device);
    compute(*neighbour);
    const auto lost = [](const auto& result) { return !result && result.error().code() == Errc::context_lost; };
    go_wrong(*half, what);
    // Behind the fault, after which the driver calls nobody back.
    const auto told = std::make_shared<std::promise<bool>>();
    auto comes = told->get_future();
    const auto pending =
        half->stream().notify([told, lost](const Result<void>& outcome) { told->set_value(lost(outcome)); });
    const auto own = half->stream().synchronize();
    const auto theirs = neighbour->stream().synchronize();
    const auto next = neighbour->stream().allocate(1000);
    const bool notified =
        pending ? comes.wait_for(std::chrono::seconds{5}) == std::future_status::ready && comes.get() : lost(pending);
    std::cout << "own: " << (own ? "no error" : own.error().message())
              << "; neighbour in the process: " << (theirs ? "no error" : theirs.error().message())
              << (notified ? "; the pending notification has the error" : "; NO notification of the error")
              << std::endl;
    // What a worker does: report and leave, without trusting the context any more.
    std::_Exit(lost(own) && lost(theirs) && lost(next) && notified && half->lost() ? 0 : 1);
  } catch (const Trouble& trouble) {
    std::cout << trouble.text << std::endl;
    return 1;
  }
}

namespace {

/// What the management library tells within two seconds.
std::vector<nvml::GpuEvent> events_of(nvml::Monitor& monitor) {
  std::vector<nvml::GpuEvent> events;
  for (int i = 0; i < 20; ++i)
    if (auto event = must(monitor.wait(std::chrono::milliseconds{100})))
      events.push_back(std::move(*event));
  return events;
}

/// A program's own fault must be told, and put nothing out of use.
void judge_events(Lab& lab, const std::vector<nvml::GpuEvent>& events) {
  bool fatal = false;
  std::string text;
  for (const auto& event : events) {
    // Those of other devices are somebody else's.
    if (std::find(event.uuids.begin(), event.uuids.end(), lab.device->info().uuid) == event.uuids.end())
      continue;
    fatal = fatal || event.severity == nvml::Severity::fatal;
    text += (text.empty() ? "" : ", ") + event.text;
  }
  lab.report.judge("fault events", !text.empty() && !fatal, text.empty() ? "none of this device came within 2 s" : text,
                   "events of this device, none of which puts it out of use",
                   {{"events", text}, {"of_all_devices", events.size()}});
}

} // namespace

void check_faults(Lab& lab) {
  const auto fresh = run("work");
  if (fresh.code != 0)
    throw Trouble{"a child process could not compute: " + fresh.output};
  lab.report.state("fresh process", fmt::format("{:.0f} ms from its start over a first product to its end", fresh.ms),
                   {{"ms", fresh.ms}});
  if (lab.smoke) {
    for (const auto* row : {"sticky error", "other faults", "fault events"})
      lab.report.skip(row, "needs a chip");
    return;
  }
  const auto context = open_half(lab.device);
  compute(*context);
  const auto monitor = nvml::Monitor::get();
  const auto watched = monitor ? (*monitor)->watch() : Result<void>{fail(monitor.error())};
  const auto fault = run("illegal address");
  const auto again = run("work");
  compute(*context);
  lab.report.judge(
      "sticky error", fault.code == 0 && again.code == 0,
      fmt::format("{}; this process goes on; a new one had a result after {:.0f} ms", fault.output, again.ms),
      "context_lost for all of that process, nothing for this one", {{"seen", fault.output}, {"respawn_ms", again.ms}});
  bool all_lost = true;
  std::string seen;
  for (const auto* how : {"misaligned address", "assertion", "trap"}) {
    const auto other = run(how);
    all_lost = all_lost && other.code == 0;
    seen += fmt::format("{}{}: {}", seen.empty() ? "" : "; ", how, other.output);
  }
  compute(*context);
  lab.report.judge("other faults", all_lost, seen, "context_lost for each", {{"seen", seen}});
  if (watched)
    judge_events(lab, events_of(**monitor));
  else
    lab.report.skip("fault events", watched.error().message());
}

} // namespace gpuactors::gpu
