// Captures that another library of the process has under way, in CUDA's default mode: whether ours break them off.
#include <fmt/format.h>
#include <gpu/kernels.hpp>
#include <gpu/lab.hpp>

#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gpuactors::gpu {

namespace {

/// What another library does: a capture that forbids every thread of the process what could disturb it.
class ForeignCapture {
public:
  /// Smoke tests run on a driver that ends the process for such a capture.
  explicit ForeignCapture(Lab& lab)
    : lab_(lab), mode_(lab.smoke ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL), kernel_(lab) {
    must(lab_.driver.stream_create(&stream_, CU_STREAM_NON_BLOCKING));
    launch(); // which loads the kernel
    must(lab_.driver.stream_synchronize(stream_));
  }
  ForeignCapture(const ForeignCapture&) = delete;
  ForeignCapture& operator=(const ForeignCapture&) = delete;

  ~ForeignCapture() {
    if (graph_ != nullptr)
      (void)lab_.driver.graph_destroy(graph_);
    (void)lab_.driver.stream_destroy(stream_);
  }

  void begin() {
    must(lab_.driver.stream_begin_capture(stream_, mode_));
    launch();
  }

  /// What follows in a capture that is broken off fails, which its end tells.
  void launch() {
    try {
      kernel_.launch(lab_.driver, stream_);
    } catch (const Trouble&) {
      broken_ = true;
    }
  }

  /// @returns how many kernels the graph has; 0: the capture was broken off.
  std::size_t end() {
    if (lab_.driver.stream_end_capture(stream_, &graph_) != CUDA_SUCCESS || broken_)
      return 0;
    std::size_t kernels = 0;
    must(lab_.driver.graph_get_nodes(graph_, nullptr, &kernels));
    CUgraphExec executable = nullptr;
    must(lab_.driver.graph_instantiate(&executable, graph_, 0));
    must(lab_.driver.graph_launch(executable, stream_));
    must(lab_.driver.stream_synchronize(stream_));
    must(lab_.driver.graph_exec_destroy(executable));
    return kernels;
  }

private:
  Lab& lab_;
  CUstreamCaptureMode mode_;
  BareKernel kernel_;
  CUstream stream_ = nullptr;
  CUgraph graph_ = nullptr;
  bool broken_ = false;
};

/// One of each: memory, launches, copies from and to memory of every kind, a product, a capture of our own, a wait.
void use_all(Context& context, bool smoke) {
  auto& stream = context.stream();
  const auto burnt = must(stream.tensor(DType::f32, {1 << 16}));
  auto pinned = must(context.host_buffer(mib));
  auto other = must(context.make_stream());
  must(stream.launch(burn, 1, smoke ? 1U : 2'000'000U, burnt.data<float>())); // so long that the poller looks for it
  std::promise<Result<void>> told;
  must(stream.notify([&told](Result<void> result) { told.set_value(std::move(result)); }));
  must(told.get_future().get());
  auto square = must(stream.tensor(DType::f32, {8, 8}));
  const auto ones = must(stream.tensor_from(std::vector<float>(64, 1.0F), {8, 8}));
  must(stream.gemm(ones, ones, square));
  if (must(stream.to_host<float>(square)).back() != 8.0F)
    throw Trouble{"a product beside a capture is wrong"};
  must(other.download(pinned.data(), burnt.raw(), 64));
  must(other.synchronize());
  const auto graph = must(stream.capture([&] { return stream.launch(nothing, 1); }));
  must(stream.launch(graph));
  must(stream.synchronize());
}

/// A context of its own, from its opening to its end.
void live_beside(Lab& lab, Share share) {
  const auto context = open(lab, share);
  use_all(*context, lab.smoke);
}

std::optional<std::string> trouble_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Trouble& trouble) {
    return trouble.text;
  }
  return std::nullopt;
}

/// What must break a capture off, or the row could not fail: a look of another thread at an event, in the default mode.
std::string break_one(Lab& lab, ForeignCapture& capture) {
  const auto& driver = lab.driver;
  CUevent event = nullptr;
  must(driver.event_create(&event, CU_EVENT_DISABLE_TIMING));
  capture.begin();
  auto looked = CUDA_SUCCESS;
  std::thread{[&] {
    (void)trouble_of([&] {
      const BareContext bare{lab};
      looked = driver.event_query(event);
    });
  }}.join();
  const auto kernels = capture.end();
  must(driver.event_destroy(event));
  return fmt::format("a thread that looks at an event in CUDA's default mode has the error {}, and the capture {}",
                     static_cast<int>(looked), kernels == 0 ? "is broken off" : "goes on");
}

} // namespace

void check_captures(Lab& lab) {
  const BareContext bare{lab};
  const auto half = Share{Share::one / 2};
  const auto known = open(lab, half);
  use_all(*known, lab.smoke);
  ForeignCapture capture{lab};
  capture.begin();
  auto trouble = trouble_of([&] { use_all(*known, lab.smoke); });
  capture.launch();
  std::optional<std::string> theirs;
  std::thread{[&] { theirs = trouble_of([&] { live_beside(lab, half); }); }}.join();
  capture.launch();
  const auto kernels = capture.end();
  if (!trouble)
    trouble = theirs;
  constexpr std::size_t captured = 3;
  lab.report.judge("captures", kernels == captured && !trouble,
                   fmt::format("a capture of {} kernels, beside which a context worked on the same thread and another "
                               "one from its opening to its end on another: {}; {}",
                               captured, kernels == captured ? "whole" : "BROKEN OFF",
                               trouble ? "which failed: " + *trouble : "all of it right"),
                   "the capture is whole, and so is our work", {{"kernels", kernels}, {"worked", !trouble}});
  if (lab.smoke)
    return lab.report.skip("broken captures", "needs a chip");
  ForeignCapture other{lab};
  lab.report.state("broken captures", break_one(lab, other));
}

} // namespace gpuactors::gpu
