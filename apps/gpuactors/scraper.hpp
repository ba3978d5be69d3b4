// Scraper: asks the broker for its state on behalf of all who read a page, and keeps what the answer gave.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors::cli {

/// How long an answer of the broker is reused for others who ask.
inline constexpr std::chrono::seconds answer_age{1};

/// How long the broker may take to answer; less than a page waits for its reply.
inline constexpr std::chrono::seconds broker_patience{3};

/// Returns why the broker did not answer, for people.
[[nodiscard]] inline std::string why_not(const Error& error) {
  if (error.code() == Errc::deadline_exceeded)
    return fmt::format("there was no answer within {} s", broker_patience.count());
  return error.message();
}

/// What is known of the broker's state, as a `Value` that was made of it.
template <class Value>
struct Scrape {
  /// Of the last state that came; null if none has.
  std::shared_ptr<const Value> value{};
  /// Why the broker did not answer when it was last asked; empty if it did.
  std::string problem{};
  /// Since when it has not answered; nothing if it did.
  std::optional<std::chrono::system_clock::time_point> failing_since{};
  /// How long its last answer took.
  double seconds = 0;
  /// How often it did not answer.
  std::uint64_t errors = 0;
};

/// Asks the broker on behalf of all readers: at most once within a second, and never twice at a time. Any thread.
template <class Value>
class Scraper {
public:
  using Taker = std::function<void(const Scrape<Value>&)>;

  /// Makes a value of a state. Called for one state after the other, on the thread that brings it.
  using Digest = std::function<Value(const v1::ClusterState&)>;

  /// Says what to ask for; the scraper sets the timeout. Called before each question, never beside `Digest`.
  using Question = std::function<StateOptions()>;

  explicit Scraper(
      Cluster& cluster, Digest digest, Question question = [] { return StateOptions{}; })
    : cluster_(cluster), shared_(std::make_shared<Shared>()) {
    shared_->digest = std::move(digest);
    shared_->question = std::move(question);
  }

  /// Calls `taker` with the last answer, or with the next one, on the thread that brings it.
  void ask(Taker taker) {
    std::unique_lock lock{shared_->mutex};
    if (!shared_->asking && shared_->asked_at && Clock::now() - *shared_->asked_at < answer_age) {
      const auto ready = shared_->last;
      lock.unlock();
      return taker(ready);
    }
    shared_->takers.push_back(std::move(taker));
    if (std::exchange(shared_->asking, true))
      return;
    shared_->asked_at = Clock::now();
    lock.unlock();
    auto options = shared_->question();
    options.timeout = broker_patience;
    cluster_.state_async(options).then(
        [shared = shared_](const Result<v1::ClusterState>& state) { take(*shared, state); });
  }

  /// Returns the last answer, however old it is.
  [[nodiscard]] Scrape<Value> last() const {
    const std::lock_guard lock{shared_->mutex};
    return shared_->last;
  }

private:
  struct Shared {
    Digest digest;
    Question question;
    std::mutex mutex;
    Scrape<Value> last;
    std::optional<TimePoint> asked_at;
    bool asking = false;
    std::vector<Taker> takers;
  };

  static void take(Shared& shared, const Result<v1::ClusterState>& state) {
    const auto value = state ? std::make_shared<const Value>(shared.digest(*state)) : nullptr;
    std::vector<Taker> takers;
    Scrape<Value> scrape;
    {
      const std::lock_guard lock{shared.mutex};
      auto& last = shared.last;
      last.seconds = to_seconds(Clock::now() - *shared.asked_at);
      if (state) {
        last.value = value;
        last.problem.clear();
        last.failing_since.reset();
      } else {
        last.problem = why_not(state.error());
        last.failing_since = last.failing_since.value_or(std::chrono::system_clock::now());
        ++last.errors;
      }
      scrape = last;
      shared.asking = false;
      takers = std::exchange(shared.takers, {});
    }
    for (const auto& taker : takers)
      taker(scrape);
  }

  Cluster& cluster_;
  std::shared_ptr<Shared> shared_;
};

} // namespace gpuactors::cli
