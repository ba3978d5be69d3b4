// Compute shares: whose work runs on which SMs, and how much of each other the holders notice.
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>
#include <gpu/kernels.hpp>
#include <gpu/lab.hpp>

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <thread>

namespace gpuactors::gpu {

namespace {

/// Starts a kernel that records where it runs. @returns where the numbers will be.
Tensor start_recording(Context& context) {
  const auto indices = std::int64_t{context.granted().units} * 32 * 256;
  auto tensor = must(context.stream().tensor(DType::i32, {indices}));
  must(context.stream().launch(record_sm, static_cast<std::uint64_t>(indices),
                               static_cast<std::uint32_t*>(tensor.raw())));
  return tensor;
}

/// Opens `parts` equal contexts, records all at once and says what is wrong; empty: nothing.
std::string record_parts(Lab& lab, int parts) {
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<Tensor> tensors;
  for (int i = 0; i < parts; ++i)
    contexts.push_back(open(lab, Share{Share::one / parts}, std::uint64_t{64} << 20));
  for (auto& context : contexts)
    tensors.push_back(start_recording(*context));
  Sms all;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    const auto sms = recorded_sms(*contexts[i], tensors[i]);
    const auto units = static_cast<std::size_t>(contexts[i]->granted().units);
    if (sms.size() != units)
      return fmt::format("of {} parts, one ran on {} SMs, {} were granted", parts, sms.size(), units);
    for (const auto sm : sms)
      if (!all.insert(sm).second)
        return fmt::format("of {} parts, two ran on SM {}", parts, sm);
  }
  return {};
}

/// A number of kernels that compute for a while, and the wait for them.
void burn_on(Context& context, int kernels, std::uint32_t rounds, float* out) {
  auto& stream = context.stream();
  const auto indices = static_cast<std::uint64_t>(context.granted().units) * 2048;
  for (int i = 0; i < kernels; ++i)
    must(stream.launch(burn, indices, rounds, out));
  must(stream.synchronize());
}

Tensor make_out(Context& context) {
  return must(context.stream().tensor(DType::f32, {0x10000}));
}

/// How long small kernels took, in microseconds.
struct Times {
  /// By the device's clock, from the first block's start to the last one's end.
  std::vector<double> device;
  /// From before the launch to after the wait, with all that the host does meanwhile.
  std::vector<double> host;
};

/// Adds a series of small kernels, one after the other.
void add_series(Lab& lab, Context& context, Tensor& out, Times& times) {
  auto& stream = context.stream();
  const auto count = lab.sized(500, 10);
  auto clock = must(stream.tensor(DType::i64, {count, 2}));
  must(stream.fill_bytes(clock.raw(), 0, static_cast<std::size_t>(count) * 2 * sizeof(std::int64_t)));
  must(stream.synchronize());
  const auto indices = static_cast<std::uint64_t>(context.granted().units) * 2048;
  for (int i = 0; i < count; ++i)
    times.host.push_back(1000 * milliseconds([&] {
                           // Long beside the steps of the clock, which are up to 1 us.
                           must(stream.launch(timed_burn, indices, lab.sized(10000U, 2U), out.data<float>(),
                                              clock.data<std::int64_t>() + std::ptrdiff_t{2} * i));
                           must(stream.synchronize());
                         }));
  const auto told = must(stream.to_host<std::int64_t>(clock));
  for (std::size_t i = 0; i < told.size(); i += 2)
    times.device.push_back(static_cast<double>(told[i + 1] - ~told[i]) / 1000);
}

/// Work that goes on in another thread until this object ends.
class Hog {
public:
  template <class F>
  explicit Hog(F work) {
    thread_ = std::thread{[this, work] {
      try {
        while (!stop_)
          work();
      } catch (const Trouble& trouble) {
        trouble_ = trouble.text;
      }
    }};
  }
  Hog(const Hog&) = delete;
  Hog& operator=(const Hog&) = delete;

  ~Hog() {
    stop_ = true;
    if (thread_.joinable())
      thread_.join();
  }

  /// Ends the work, which must have gone on until now.
  void finish() {
    stop_ = true;
    thread_.join();
    if (!trouble_.empty())
      throw Trouble{"the neighbour stopped: " + trouble_};
  }

private:
  std::atomic<bool> stop_{false};
  std::string trouble_;
  std::thread thread_;
};

} // namespace

void check_groups(Lab& lab) {
  const auto half = open(lab, Share{Share::one / 2});
  const auto other = open(lab, Share{Share::one / 2});
  const auto grant = half->granted();
  if (grant.compute != ComputeEnforcement::sm_groups)
    return lab.report.fail("groups", to_string(grant));
  auto both = grant.groups;
  const auto theirs = other->granted().groups;
  both.insert(both.end(), theirs.begin(), theirs.end());
  const auto distinct = std::set<int>(both.begin(), both.end()).size();
  const auto sms = lab.device->info().units;
  const auto group_sms = grant.units / static_cast<int>(grant.groups.size());
  const auto their_sms = other->granted().units;
  const auto left = sms - group_sms * grant.group_count;
  const auto more = their_sms - group_sms * static_cast<int>(theirs.size());
  lab.report.judge(
      "groups", distinct == both.size() && more == left,
      fmt::format("{} groups of {} SMs, and {} SMs that fit in none, {} of them with the last one; of {} SMs a "
                  "half is {}, the other half {}",
                  grant.group_count, group_sms, left, more, sms, to_string(grant), to_string(other->granted())),
      "two halves share no group, and have all SMs, as the driver counts them",
      {{"groups", grant.group_count},
       {"group_sms", group_sms},
       {"sms", sms},
       {"half_sms", grant.units},
       {"other_half_sms", their_sms}});
}

void check_sm_ids(Lab& lab) {
  const auto groups = open(lab, Share{Share::one / 2})->granted().group_count;
  if (lab.smoke || groups == 0) {
    if (lab.smoke)
      (void)record_parts(lab, 2);
    return lab.report.skip("sm_ids", groups == 0 ? "fractions are not enforced here" : "needs a chip");
  }
  for (const int parts : {2, 4, groups})
    if (const auto wrong = record_parts(lab, parts); !wrong.empty())
      return lab.report.judge("sm_ids", false, wrong, "%smid of parts that run at once: disjoint, as many as granted");
  lab.report.judge("sm_ids", true, fmt::format("2, 4 and {} parts at once are disjoint", groups),
                   "%smid of parts that run at once: disjoint, as many as granted");
}

namespace {

/// Waits until the kernel that holds its place is there, by a look at its second word from another context.
void await_start(Context& other, const Tensor& flag) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds{3};
  while (must(other.stream().to_host<std::int32_t>(flag))[1] == 0) {
    if (std::chrono::steady_clock::now() > patience)
      throw Trouble{"the kernel that takes the SMs does not start"};
    std::this_thread::yield();
  }
}

std::unique_ptr<Context> open_and_multiply(Lab& lab) {
  auto context = open(lab, Share{Share::one / 4});
  auto& stream = context->stream();
  const auto a = must(stream.tensor_from(std::vector<float>(64, 1.0F), {8, 8}));
  auto c = must(stream.tensor(DType::f32, {8, 8}));
  must(stream.gemm(a, a, c));
  must(stream.synchronize());
  return context;
}

} // namespace

void check_ending(Lab& lab) {
  const auto slow = open(lab, Share{Share::one / 4});
  const auto other = open(lab, Share{Share::one / 4});
  auto& stream = slow->stream();
  auto flag = must(stream.tensor_from(std::vector<std::int32_t>{1, 0}, {2}));
  auto* const word = reinterpret_cast<std::uint32_t*>(flag.data<std::int32_t>());
  auto leaving = open_and_multiply(lab);
  // The first one is let go at once: what is loaded at its first launch is then there.
  must(stream.launch(hold, 1, word));
  must(stream.fill_bytes(flag.raw(), 0, 8));
  must(stream.synchronize());
  must(stream.launch(hold, 1, word));
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  must(stream.notify([ended](const Result<void>&) { *ended = true; }));
  if (!lab.smoke)
    await_start(*other, flag);
  const auto gone_ms = milliseconds([&] { leaving.reset(); });
  const bool beside = !*ended;
  const auto came_ms = milliseconds([&] { leaving = open_and_multiply(lab); });
  const bool came_beside = !*ended;
  must(other->stream().fill_bytes(flag.raw(), 1, 4));
  must(other->stream().synchronize());
  must(stream.synchronize());
  lab.report.judge(
      "ending", beside,
      fmt::format("while a kernel of another one {}, a context that has multiplied ended in {:.2f} ms; a new "
                  "one came and multiplied in {:.2f} ms{}",
                  beside ? "runs" : "RAN TO ITS END", gone_ms, came_ms, came_beside ? "" : ", when that had ended"),
      "who leaves waits for nobody's kernels", {{"gone_ms", gone_ms}, {"came_ms", came_ms}});
}

void check_confinement(Lab& lab) {
  if (lab.smoke)
    return lab.report.skip("confined", "needs a chip");
  const auto half = open(lab, Share{Share::one / 2});
  const auto other = open(lab, Share{Share::one / 2});
  auto& stream = half->stream();
  auto side = must(half->make_stream());
  auto flag = must(stream.tensor_from(std::vector<std::int32_t>{0, 0}, {2}));
  auto a = must(stream.tensor(DType::f32, {512, 512}));
  auto c = must(stream.tensor(DType::f32, {512, 512}));
  auto bytes = must(stream.allocate(std::size_t{64} << 20));
  const auto product = [&] { must(side.gemm(a, a, c)); };
  const auto fill = [&] { must(side.fill_bytes(bytes.data(), 1, bytes.bytes())); };
  product();
  fill();
  must(side.synchronize());
  must(stream.synchronize());
  // With every place on the half's SMs taken, what ends before it is let go ran elsewhere.
  const auto all_places = static_cast<std::uint64_t>(half->granted().units) * 2048;
  const auto waits = [&](auto&& work, std::uint64_t places) {
    must(stream.fill_bytes(flag.raw(), 0, 8));
    // Else what is read below may be left from the round before.
    must(stream.synchronize());
    must(stream.launch(hold, places, static_cast<std::uint32_t*>(flag.raw())));
    // Not before it is there.
    await_start(*other, flag);
    work();
    // The callback may come when this has ended by an error.
    const auto done = std::make_shared<std::atomic<bool>>(false);
    must(side.notify([done](const Result<void>&) { *done = true; }));
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{100};
    while (!*done && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    const bool early = *done;
    must(other->stream().fill_bytes(flag.raw(), 1, 4));
    must(stream.synchronize());
    must(side.synchronize());
    while (!*done)
      std::this_thread::yield();
    return !early;
  };
  // Else it would wait for the kernel itself, wherever that runs.
  const auto waits_for_one = waits(product, 1);
  const auto product_waits = waits(product, all_places);
  const auto fill_waits = waits(fill, all_places);
  lab.report.judge(
      "confined", product_waits && !waits_for_one,
      fmt::format("with its SMs taken, a half's cuBLAS product {}, its memset {}; with one place of them taken the "
                  "product {}",
                  product_waits ? "waits" : "runs ELSEWHERE", fill_waits ? "waits" : "runs elsewhere",
                  waits_for_one ? "WAITS, too" : "runs beside"),
      "a product waits for its own SMs, and for nothing else (a memset may use a copy engine)",
      {{"product_waits", product_waits}, {"memset_waits", fill_waits}, {"product_waits_for_one", waits_for_one}});
}

namespace {

/// Milliseconds by the device's clock, which is one for all that runs there.
struct Span {
  double begin = 0;
  double end = 0;

  [[nodiscard]] double length() const {
    return end - begin;
  }
};

/// A context with kernels that compute, and tell by the device's clock from when to when.
class TimedPart {
public:
  /// @param more streams that it has used, beside the one for its kernels.
  TimedPart(Lab& lab, Share share, int more = 0)
    : lab_(lab), context_(open(lab, share, std::uint64_t{32} << 20)), out_(make_out(*context_)),
      clock_(must(context_->stream().tensor(DType::i64, {2}))) {
    for (int i = 0; i < more; ++i) {
      auto& stream = streams_.emplace_back(must(context_->make_stream()));
      must(stream.launch(burn, 1, 1U, out_.data<float>()));
      must(stream.synchronize());
    }
  }

  /// From the start of the first of so many kernels to the end of the last one.
  Span run(int kernels) {
    auto& stream = context_->stream();
    must(stream.zero(clock_));
    const auto indices = static_cast<std::uint64_t>(context_->granted().units) * 2048;
    for (int i = 0; i < kernels; ++i)
      must(stream.launch(timed_burn, indices, lab_.sized(200'000U, 10U), out_.data<float>(),
                         clock_.data<std::int64_t>()));
    const auto told = must(stream.to_host<std::int64_t>(clock_));
    return {static_cast<double>(~told[0]) / 1e6, static_cast<double>(told[1]) / 1e6};
  }

private:
  Lab& lab_;
  std::unique_ptr<Context> context_;
  Tensor out_;
  Tensor clock_;
  std::vector<Stream> streams_;
};

/// Milliseconds of parts that ran at once.
struct Together {
  double slowest = std::numeric_limits<double>::max();
  /// From the first start to the last end.
  double whole = std::numeric_limits<double>::max();
};

/// All parts at once, a thread each.
Together run_together(std::vector<std::unique_ptr<TimedPart>>& parts, int kernels) {
  std::vector<Span> times(parts.size());
  std::vector<std::thread> threads;
  std::atomic<bool> wrong{false};
  for (std::size_t i = 0; i < parts.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        times[i] = parts[i]->run(kernels);
      } catch (const Trouble&) {
        wrong = true;
      }
    });
  for (auto& thread : threads)
    thread.join();
  if (wrong)
    throw Trouble{"a fraction failed"};
  Together result{0, 0};
  auto first = std::numeric_limits<double>::max();
  auto last = std::numeric_limits<double>::lowest();
  for (const auto& time : times) {
    result.slowest = std::max(result.slowest, time.length());
    first = std::min(first, time.begin);
    last = std::max(last, time.end);
  }
  result.whole = last - first;
  return result;
}

} // namespace

void measure_fractions(Lab& lab) {
  const auto count = std::max(2, open(lab, Share{Share::one / 2})->granted().group_count);
  std::vector<std::unique_ptr<TimedPart>> parts;
  for (int i = 0; i < count; ++i)
    parts.push_back(std::make_unique<TimedPart>(lab, Share{Share::one / count}));
  // Long enough for clocks that rise and fall with the load, and the start of a thread is nothing beside it.
  constexpr double enough_ms = 200;
  (void)parts[0]->run(1);
  const auto one_ms = std::max(1e-3, parts[0]->run(1).length());
  const auto kernels = lab.sized(std::clamp(static_cast<int>(enough_ms / one_ms) + 1, 1, 2'000), 2);
  (void)run_together(parts, kernels);
  auto alone = std::numeric_limits<double>::max();
  Together best;
  for (int turn = 0; turn < 3; ++turn) {
    alone = std::min(alone, parts[0]->run(kernels).length());
    const auto together = run_together(parts, kernels);
    best = {std::min(best.slowest, together.slowest), std::min(best.whole, together.whole)};
  }
  // More streams than there are hardware queues, which contexts share.
  parts.clear();
  constexpr int more = 2;
  for (int i = 0; i < count; ++i)
    parts.push_back(std::make_unique<TimedPart>(lab, Share{Share::one / count}, more));
  (void)run_together(parts, kernels);
  const auto crowded = run_together(parts, kernels).slowest;
  parts.clear();
  // The same work for each SM on the whole device.
  TimedPart whole{lab, Share::whole(1)};
  (void)whole.run(kernels);
  const auto whole_ms = whole.run(kernels).length();
  // Their threads do not start at once.
  constexpr double starts_ms = 10;
  lab.report.judge("fractions", best.slowest <= 1.1 * alone && best.whole <= 1.1 * alone + starts_ms,
                   fmt::format("{} at once: slowest {:.1f} ms, all {:.1f} ms, alone {:.1f} ms; with {} streams each "
                               "slowest {:.1f} ms; whole device "
                               "{:.1f} ms; by the device's clock, the best of 3 turns of {} kernels",
                               count, best.slowest, best.whole, alone, more + 1, crowded, whole_ms, kernels),
                   "the slowest takes at most 1.1 of the time of one alone, and so do all together (and 10 ms)",
                   {{"parts", count},
                    {"alone_ms", alone},
                    {"slowest_ms", best.slowest},
                    {"together_ms", best.whole},
                    {"crowded_ms", crowded},
                    {"whole_ms", whole_ms},
                    {"kernels", kernels}});
}

void measure_neighbour(Lab& lab) {
  const auto half = open(lab, Share{Share::one / 2});
  const auto other = open(lab, Share{Share::one / 2});
  auto out = make_out(*half);
  auto theirs = make_out(*other);
  const auto floats = lab.sized(std::int64_t{64} << 20, std::int64_t{1} << 16);
  auto from = must(other->stream().tensor(DType::f32, {floats}));
  auto to = must(other->stream().tensor(DType::f32, {floats}));
  must(other->stream().synchronize());
  Times alone;
  Times computing;
  Times dragging;
  const auto drag_once = [&] {
    must(other->stream().launch(drag, static_cast<std::uint64_t>(floats), from.data<const float>(), to.data<float>()));
    must(other->stream().synchronize());
  };
  { // Kernels are loaded when they are first launched.
    Times ignored;
    add_series(lab, *half, out, ignored);
    burn_on(*other, 1, 10, theirs.data<float>());
    drag_once();
  }
  // By turns, so that what changes with time changes all.
  for (int turn = 0; turn < lab.sized(5, 1); ++turn) {
    add_series(lab, *half, out, alone);
    {
      Hog hog{[&] { burn_on(*other, 4, lab.sized(20000U, 10U), theirs.data<float>()); }};
      add_series(lab, *half, out, computing);
      hog.finish();
    }
    Hog hog{drag_once};
    add_series(lab, *half, out, dragging);
    hog.finish();
  }
  const auto p50 = [](const std::vector<double>& times) { return quantile(times, 0.5); };
  const auto p99 = [](const std::vector<double>& times) { return quantile(times, 0.99); };
  const bool met = p50(computing.device) <= 1.1 * p50(alone.device) && p99(computing.device) <= 1.1 * p99(alone.device);
  lab.report.judge(
      "neighbour", met,
      fmt::format("by the device's clock p50 {:.1f} and p99 {:.1f} us alone, beside a half that computes {:.1f} and "
                  "{:.1f}, that copies {:.1f} and {:.1f}; with launch and wait p99 {:.1f}, {:.1f} and {:.1f}; {} each",
                  p50(alone.device), p99(alone.device), p50(computing.device), p99(computing.device),
                  p50(dragging.device), p99(dragging.device), p99(alone.host), p99(computing.host), p99(dragging.host),
                  alone.device.size()),
      "by the device's clock at most 1.1 beside one that computes",
      {{"alone_us", p99(alone.device)},
       {"computing_us", p99(computing.device)},
       {"copying_us", p99(dragging.device)},
       {"alone_p50_us", p50(alone.device)},
       {"computing_p50_us", p50(computing.device)},
       {"copying_p50_us", p50(dragging.device)},
       {"host_alone_us", p99(alone.host)},
       {"host_computing_us", p99(computing.host)},
       {"host_copying_us", p99(dragging.host)}});
}

} // namespace gpuactors::gpu
