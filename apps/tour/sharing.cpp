// T5, T7: tasks that share one device, and the broker's log as the witness.
#include "programs.hpp"

#include <algorithm>
#include <thread>

namespace tour {

using gpuactors::Future;
using gpuactors::Result;
using gpuactors::Share;
using gpuactors::TaskContext;

namespace {

// -- the task -------------------------------------------------------------------------------------

GPUACTORS_TASK("sleep", [](TaskContext& ctx, const SleepRequest& in) {
  const SpanTimer span;
  // In small steps, so that a cancelled task ends early.
  const Stopwatch watch;
  while (watch.seconds() < in.seconds() && !ctx.stop_requested())
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  SleepReply reply;
  *reply.mutable_span() = span.end();
  *reply.mutable_place() = place_of(ctx);
  return reply;
});

// -- the programs ---------------------------------------------------------------------------------

/// Submits four sleeping tasks of `gpus` each, all before the first answer. Each has a name of its own, so that each
/// asks the broker for a lease of its own and the log shows all four.
Result<std::vector<SleepReply>> sleep_four_times(OneDevice& one, double gpus, double seconds) {
  SleepRequest request;
  request.set_seconds(seconds);
  std::vector<Future<SleepReply>> futures;
  futures.reserve(4);
  for (int i = 0; i < 4; ++i)
    futures.push_back(one.cluster.submit<SleepReply>("sleep", request,
                                                     one.here({.gpus = gpus, .name = fmt::format("sleeper {}", i)})));
  std::vector<SleepReply> replies;
  replies.reserve(futures.size());
  for (auto& future : futures) {
    GPUACTORS_LET(reply, future.get());
    replies.push_back(std::move(reply));
  }
  return replies;
}

std::vector<Span> spans_of(const std::vector<SleepReply>& replies) {
  std::vector<Span> spans;
  spans.reserve(replies.size());
  for (const auto& reply : replies)
    spans.push_back(reply.span());
  return spans;
}

std::string units(std::int64_t units) {
  return gpuactors::to_string(Share{units});
}

} // namespace

Result<void> run_t5(Tour& tour) {
  GPUACTORS_LET(one, open_one(tour));
  auto& row = tour.row("four sleeping tasks of 0.25");
  GPUACTORS_LET(replies, sleep_four_times(one, 0.25, 2));
  GPUACTORS_LET(usage, usage_of(one.cluster));
  row.device = to_string(replies.front().place()) + " each";
  const auto together = most_at_once(spans_of(replies));
  row.result = fmt::format("{} at once, {} of the device granted", together, units(usage.most_units));
  row.check(together == 4, "four tasks running at one instant were expected, {} came", together);
  row.check(usage.most_leases == 4, "four leases at one instant in the log were expected, {} came", usage.most_leases);
  row.check(usage.most_units == Share::one, "1 of the device granted at one instant was expected, {} came",
            units(usage.most_units));
  return {};
}

Result<void> run_t7(Tour& tour) {
  GPUACTORS_LET(one, open_one(tour));
  auto& row = tour.row("four sleeping tasks of 0.3");
  GPUACTORS_LET(replies, sleep_four_times(one, 0.3, 2));
  GPUACTORS_LET(usage, usage_of(one.cluster));
  row.device = to_string(replies.front().place()) + " each";
  auto spans = spans_of(replies);
  const auto together = most_at_once(spans);
  row.result = fmt::format("{} at once, at most {} granted", together, units(usage.most_units));
  row.check(together == 3, "three tasks running at one instant were expected, {} came", together);
  row.check(usage.most_leases == 3, "three leases at one instant in the log were expected, {} came", usage.most_leases);
  row.check(usage.most_units == 9000, "at most 0.9 of the device granted at one instant was expected, {} came",
            units(usage.most_units));
  row.check(usage.grants_after_waiting == 1 && usage.releases_before_last_grant >= 1,
            "one grant that waited for a release was expected in the log, {} came after {} releases",
            usage.grants_after_waiting, usage.releases_before_last_grant);
  const auto by_begin = [](const Span& a, const Span& b) { return a.begin_ns() < b.begin_ns(); };
  std::sort(spans.begin(), spans.end(), by_begin);
  const auto first_end = std::min({spans[0].end_ns(), spans[1].end_ns(), spans[2].end_ns()});
  row.check(spans[3].begin_ns() >= first_end,
            "the fourth was expected to begin after the first had ended, it began {} ms before",
            (first_end - spans[3].begin_ns()) / 1'000'000);
  return {};
}

} // namespace tour
