// How soon after long work a notification comes, and whether what is behind it on the stream waits for it.
#include <fmt/format.h>
#include <gpu/kernels.hpp>
#include <gpu/lab.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors::gpu {

namespace {

using Moment = std::chrono::steady_clock::time_point;

/// A stream with a long kernel on it, a notification, and something short behind that. Copies of a word to pinned
/// memory tell when a place on the stream was reached.
class Lane {
public:
  explicit Lane(Context& context)
    : stream_(must(context.make_stream())), words_(must(context.host_buffer(2 * sizeof(std::int32_t)))),
      one_(must(stream_.tensor_from(std::vector<std::int32_t>{1}))), out_(must(stream_.tensor(DType::f32, {1 << 16}))) {
    // nop
  }

  void begin(std::uint32_t rounds, bool notifies) {
    word(0) = 0;
    word(1) = 0;
    told_ = std::promise<Moment>{};
    must(stream_.launch(burn, 1, rounds, out_.data<float>()));
    must(stream_.download(&word(0), one_.raw(), sizeof(std::int32_t)));
    if (notifies)
      must(stream_.notify([this](Result<void>) { told_.set_value(std::chrono::steady_clock::now()); }));
    must(stream_.launch(nothing, 1));
    must(stream_.download(&word(1), one_.raw(), sizeof(std::int32_t)));
    done_ = {};
  }

  /// Looks where the stream is. @returns whether it is at its end.
  bool look() {
    // The later one first: when it is there, so is the other one.
    for (const std::size_t i : {1U, 0U})
      if (!done_[i] && std::atomic_ref{word(i)}.load(std::memory_order_acquire) == 1)
        done_[i] = std::chrono::steady_clock::now();
    return done_[1].has_value();
  }

  /// How much later than the kernel's end the notification came, and what is behind it was done; in milliseconds.
  [[nodiscard]] double told_late() {
    return since_end(told_.get_future().get());
  }
  [[nodiscard]] double behind_late() const {
    return since_end(*done_[1]);
  }

private:
  std::int32_t& word(std::size_t i) {
    return static_cast<std::int32_t*>(words_.data())[i];
  }

  [[nodiscard]] double since_end(Moment moment) const {
    return std::chrono::duration<double, std::milli>(moment - *done_[0]).count();
  }

  Stream stream_;
  HostBuffer words_;
  Tensor one_;
  Tensor out_;
  std::promise<Moment> told_;
  std::array<std::optional<Moment>, 2> done_;
};

/// The worst of some lanes at once, in milliseconds.
struct Lateness {
  double told = 0;
  double behind = 0;
};

Lateness measure_once(std::vector<std::unique_ptr<Lane>>& lanes, std::size_t count, std::uint32_t rounds,
                      bool notifies) {
  for (std::size_t i = 0; i < count; ++i)
    lanes[i]->begin(rounds, notifies);
  for (std::size_t done = 0; done < count;) {
    done = 0;
    for (std::size_t i = 0; i < count; ++i)
      done += lanes[i]->look() ? 1 : 0;
  }
  Lateness worst;
  for (std::size_t i = 0; i < count; ++i) {
    worst.behind = std::max(worst.behind, lanes[i]->behind_late());
    if (notifies)
      worst.told = std::max(worst.told, lanes[i]->told_late());
  }
  return worst;
}

/// The least of several times: a thread that looks on loses its processor now and then, which delays nothing but its
/// look.
Lateness measure(std::vector<std::unique_ptr<Lane>>& lanes, std::size_t count, std::uint32_t rounds, bool notifies) {
  constexpr int times = 3;
  auto least = measure_once(lanes, count, rounds, notifies);
  for (int i = 1; i < times; ++i) {
    const auto next = measure_once(lanes, count, rounds, notifies);
    least = {std::min(least.told, next.told), std::min(least.behind, next.behind)};
  }
  return least;
}

/// Rounds of the kernel for so many milliseconds.
std::uint32_t rounds_for(Context& context, double ms) {
  auto out = must(context.stream().tensor(DType::f32, {1 << 16}));
  constexpr std::uint32_t some = 1'000'000;
  const auto run = [&] {
    must(context.stream().launch(burn, 1, some, out.data<float>()));
    must(context.stream().synchronize());
  };
  run();
  return static_cast<std::uint32_t>(ms / milliseconds(run) * some);
}

} // namespace

void check_notices(Lab& lab) {
  const auto context = open(lab, Share::whole(1));
  constexpr std::size_t side_streams = 4;
  std::vector<std::unique_ptr<Lane>> lanes;
  for (std::size_t i = 0; i <= side_streams; ++i)
    lanes.push_back(std::make_unique<Lane>(*context));
  std::string text;
  double told = 0;
  double behind = 0;
  nlohmann::json values;
  // The poller itself looks every tenth of a millisecond until 50 ms have passed, and then every 5.
  for (const double ms : {20.0, 200.0}) {
    const auto rounds = lab.smoke ? 1000 : rounds_for(*context, ms);
    for (const std::size_t count : {std::size_t{1}, side_streams, side_streams + 1}) {
      const auto without = measure(lanes, count, rounds, false);
      const auto with = measure(lanes, count, rounds, true);
      text +=
          fmt::format("{}{} of {:.0f} ms: told {:.2f} ms late, what is behind done {:.2f} ms after (without {:.2f})",
                      text.empty() ? "" : "; ", count, ms, with.told, with.behind, without.behind);
      const auto name = fmt::format("{}x{:.0f}ms", count, ms);
      values[name + "_told_ms"] = with.told;
      values[name + "_behind_ms"] = with.behind - without.behind;
      behind = std::max(behind, with.behind - without.behind);
      if (count <= side_streams)
        told = std::max(told, with.told);
    }
  }
  lab.report.judge("notices", told <= 1 && behind <= 0.1, text,
                   fmt::format("up to {} at once within 1 ms; what is behind waits at most 0.1 ms more", side_streams),
                   std::move(values));
}

} // namespace gpuactors::gpu
