// Graphs: on whose SMs their kernels run, what a launch costs beside the bare driver, what they take of the device.
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>
#include <gpu/kernels.hpp>
#include <gpu/lab.hpp>

#include <algorithm>
#include <iterator>

namespace gpuactors::gpu {

namespace {

/// A graph of one kernel that records where it runs, and where the numbers will be.
struct Recorder {
  Tensor where;
  Graph graph;
};

Recorder make_recorder(Context& context) {
  auto& stream = context.stream();
  const auto indices = std::int64_t{context.granted().units} * 32 * 256;
  auto where = must(stream.tensor(DType::i32, {indices}));
  auto* const words = static_cast<std::uint32_t*>(where.raw());
  auto graph =
      must(stream.capture([&] { return stream.launch(record_sm, static_cast<std::uint64_t>(indices), words); }));
  return {std::move(where), std::move(graph)};
}

void check_graph_sms(Lab& lab) {
  const auto half = open(lab, Share{Share::one / 2});
  const auto other = open(lab, Share{Share::one / 2});
  const auto first = make_recorder(*half);
  const auto second = make_recorder(*other);
  must(half->stream().launch(first.graph));
  must(other->stream().launch(second.graph));
  const auto here = recorded_sms(*half, first.where);
  const auto there = recorded_sms(*other, second.where);
  if (lab.smoke || half->granted().compute != ComputeEnforcement::sm_groups)
    return lab.report.skip("graph sms", lab.smoke ? "needs a chip" : "fractions are not enforced here");
  Sms both;
  std::set_intersection(here.begin(), here.end(), there.begin(), there.end(), std::inserter(both, both.begin()));
  const auto granted = static_cast<std::size_t>(half->granted().units);
  lab.report.judge("graph sms", both.empty() && here.size() == granted,
                   fmt::format("a half's graph ran on {} SMs of {} granted, {} of them the other half's", here.size(),
                               granted, both.size()),
                   "%smid of the graphs of two halves at once: disjoint, as many as granted",
                   {{"sms", here.size()}, {"granted", granted}, {"shared", both.size()}});
}

/// A graph of the bare driver with as many kernels that do nothing.
CUgraphExec make_bare(Lab& lab, CUstream stream, int kernels) {
  const auto& driver = lab.driver;
  const BareKernel kernel{lab};
  must(driver.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < kernels; ++i)
    kernel.launch(driver, stream);
  CUgraph graph = nullptr;
  must(driver.stream_end_capture(stream, &graph));
  CUgraphExec executable = nullptr;
  must(driver.graph_instantiate(&executable, graph, 0));
  must(driver.graph_destroy(graph));
  return executable;
}

void measure_graph_launches(Lab& lab) {
  const auto context = open(lab, Share::whole(1));
  auto& stream = context->stream();
  // So few that a wait for them does not sleep.
  constexpr int kernels = 20;
  const auto launch_all = [&]() -> Result<void> {
    for (int i = 0; i < kernels; ++i)
      GPUACTORS_TRY(stream.launch(nothing, 1));
    return {};
  };
  must(launch_all());
  must(stream.synchronize());
  const auto free_before = free_bytes(lab);
  const auto graph = must(stream.capture(launch_all));
  must(stream.launch(graph));
  must(stream.synchronize());
  const auto taken = free_before - std::min(free_before, free_bytes(lab));
  const BareContext bare{lab};
  CUstream raw = nullptr;
  must(lab.driver.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  auto* const executable = make_bare(lab, raw, kernels);
  std::vector<double> ours;
  std::vector<double> theirs;
  std::vector<double> apart;
  for (int i = 0; i < lab.sized(2000, 10); ++i) {
    ours.push_back(1000 * milliseconds([&] {
                     must(stream.launch(graph));
                     must(stream.synchronize());
                   }));
    theirs.push_back(1000 * milliseconds([&] {
                       must(lab.driver.graph_launch(executable, raw));
                       // The context's threads sleep in cuStreamSynchronize: the fastest wait is the floor.
                       while (lab.driver.stream_query(raw) == CUDA_ERROR_NOT_READY) {
                         // nop
                       }
                       must(lab.driver.stream_synchronize(raw));
                     }));
    apart.push_back(1000 * milliseconds([&] {
                      must(launch_all());
                      must(stream.synchronize());
                    }));
  }
  must(lab.driver.graph_exec_destroy(executable));
  must(lab.driver.stream_destroy(raw));
  const auto own = quantile(ours, 0.5);
  const auto floor = quantile(theirs, 0.5);
  const auto single = quantile(apart, 0.5);
  constexpr double allowed_us = 10;
  lab.report.judge(
      "graph launches", own <= floor + allowed_us,
      fmt::format("{} kernels, launch and wait: a graph {:.1f} us, of the bare driver {:.1f} us, one by one "
                  "{:.1f} us; the graph took {} KiB of the device",
                  kernels, own, floor, single, taken >> 10U),
      "at most 10 us above a graph of the bare driver",
      {{"graph_us", own}, {"bare_us", floor}, {"apart_us", single}, {"taken_bytes", taken}});
}

} // namespace

void check_graphs(Lab& lab) {
  try {
    check_graph_sms(lab);
  } catch (const Trouble& trouble) { // which the whole device need not have
    lab.report.fail("graph sms", trouble.text);
  }
  measure_graph_launches(lab);
}

} // namespace gpuactors::gpu
