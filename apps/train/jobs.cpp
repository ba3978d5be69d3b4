#include "jobs.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace train {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// Trainings that are asked for at once: each has a thread of this program that waits for it.
constexpr std::size_t most_at_once = 64;

/// Trainings that several threads take one after the other.
class Jobs {
public:
  Jobs(gpuactors::Cluster& cluster, const std::vector<Plan>& plans, const gpuactors::Options& options,
       std::uint64_t epochs, const JobWatcher& watcher)
    : cluster_(cluster), plans_(plans), options_(options), epochs_(epochs), watcher_(watcher) {
    counts_.all = plans.size();
    results_.assign(plans.size(), gpuactors::fail(Errc::cancelled, "stopped before it began"));
  }

  std::vector<Result<Outcome>> run() {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < std::min(most_at_once, plans_.size()); ++i)
      threads.emplace_back([this] {
        for (auto index = next_++; index < plans_.size() && !watcher_.stop(); index = next_++)
          results_[index] = train(plans_[index]);
      });
    for (auto& thread : threads)
      thread.join();
    return std::move(results_);
  }

private:
  Result<Outcome> train(const Plan& plan) {
    Watcher watcher;
    watcher.stop = watcher_.stop;
    GPUACTORS_LET(trainer, await_start(cluster_.spawn_async("trainer", plan, options_), watcher));
    count(1, 0);
    auto outcome = follow(trainer, epochs_, watcher);
    // Before its part of the device is for the next one, which would be counted beside it.
    count(-1, 1);
    const auto ended = cluster_.kill(trainer);
    if (outcome && !ended && !is_death(ended.error().code()))
      return gpuactors::fail(ended.error());
    return outcome;
  }

  void count(int running, int done) {
    const std::lock_guard lock{mutex_};
    counts_.running += static_cast<std::size_t>(running);
    counts_.done += static_cast<std::size_t>(done);
    watcher_.changed(counts_);
  }

  gpuactors::Cluster& cluster_;
  const std::vector<Plan>& plans_;
  const gpuactors::Options& options_;
  const std::uint64_t epochs_;
  const JobWatcher& watcher_;
  std::vector<Result<Outcome>> results_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  JobCounts counts_;
};

} // namespace

std::vector<Result<Outcome>> run_jobs(gpuactors::Cluster& cluster, const std::vector<Plan>& plans,
                                      const gpuactors::Options& options, std::uint64_t epochs,
                                      const JobWatcher& watcher) {
  return Jobs{cluster, plans, options, epochs, watcher}.run();
}

} // namespace train
