// A cluster under load whose parts are killed and frozen, 100 times, by a schedule that a seed repeats.
#include "client.hpp"
#include "fixture.hpp"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr auto call_deadline = 5s;

/// Calls and tasks without end; every one of them must be answered in time, with a value or an error.
class Load {
public:
  Load(Cluster& cluster, std::vector<ActorRef> actors) : cluster_(cluster), actors_(std::move(actors)) {
    for (int i = 0; i < 3; ++i)
      threads_.emplace_back([this, i] { run(i); });
  }

  ~Load() {
    stop();
  }

  void stop() {
    stop_ = true;
    for (auto& thread : threads_)
      if (thread.joinable())
        thread.join();
  }

  std::atomic<std::size_t> answered{0};
  std::atomic<std::size_t> failed{0};
  /// Answers that came later than their deadline and some more.
  std::atomic<std::size_t> late{0};

private:
  void run(int which) {
    std::minstd_rand random(static_cast<unsigned>(which));
    while (!stop_) {
      const auto begin = Clock::now();
      bool good = false;
      if (which == 0) {
        Options options;
        options.gpus = 0.1;
        options.deadline = call_deadline;
        good = cluster_.submit<Number>("pid", {}, options).get().has_value();
      } else {
        auto& actor = actors_[random() % actors_.size()];
        good = actor.call<Number>("add", number(1), call_deadline).get().has_value();
      }
      ++(good ? answered : failed);
      if (Clock::now() - begin > call_deadline + 3s)
        ++late;
    }
  }

  Cluster& cluster_;
  std::vector<ActorRef> actors_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// The cluster and what is done to it.
class Chaos {
public:
  explicit Chaos(unsigned seed) : random_(seed) {
    processes_.start_broker();
    for (int i = 0; i < nodes; ++i)
      processes_.start_node(node(i));
    // This process is none of those that are struck: on a busy machine it may stand still for a moment all the same.
    cluster_.emplace(processes_.connect(10s));
    for (int i = 0; i < 2 * nodes; ++i)
      actors_.push_back(must(cluster_->spawn(
          "counter", number(0), {.gpus = 0.5, .spread = true, .name = fmt::format("a{}", i), .max_restarts = 100000})));
    processes_.start_client("client");
  }

  /// One event. @returns what was done.
  std::string strike() {
    switch (random_() % 8) {
    case 0:
    case 1:
    case 2:
      return strike_worker(SIGKILL);
    case 3:
      return strike_worker(SIGSTOP);
    case 4: {
      const auto name = node(static_cast<int>(random_() % nodes));
      processes_.signal(name, SIGKILL);
      processes_.start_node(name);
      return "killed and restarted " + name;
    }
    case 5:
      processes_.signal("client", SIGKILL);
      processes_.start_client("client");
      return "killed and restarted the client";
    case 6:
      processes_.signal("broker", SIGKILL);
      processes_.start_broker();
      return "killed and restarted the broker";
    default: {
      const auto name = random_() % 2 == 0 ? node(static_cast<int>(random_() % nodes)) : std::string{"client"};
      processes_.signal(name, SIGSTOP);
      std::this_thread::sleep_for(Processes::link_timeout + 400ms);
      processes_.signal(name, SIGCONT);
      return "froze and thawed " + name;
    }
    }
  }

  /// Whether all actors answer, from places that no two of them may have, and the books of the broker agree.
  bool is_whole() {
    for (auto& actor : actors_)
      if (!actor.call<Number>("add", number(0), 2s).get())
        return false;
    const auto state = cluster_->state();
    if (!state || state->nodes_size() != nodes)
      return false;
    for (const auto& device : state->devices()) {
      std::int64_t held = 0;
      for (const auto& lease : state->leases())
        if (lease.node() == device.node() && lease.parent() == 0)
          for (const auto& grant : lease.devices())
            if (grant.index() == device.device().index())
              held += grant.share_units();
      if (held + device.free_units() != Share::whole(1).units() || device.free_units() < 0)
        return false;
    }
    return true;
  }

  /// Ends all that it has started; whether nothing is held afterwards.
  bool end() {
    processes_.signal("client", SIGKILL);
    for (auto& actor : actors_)
      must(cluster_->kill(actor));
    return eventually([&] { return is_idle(*cluster_); });
  }

  Cluster& cluster() {
    return *cluster_;
  }

  std::vector<ActorRef> actors() const {
    return actors_;
  }

  std::string output() {
    return processes_.output();
  }

private:
  static constexpr int nodes = 3;

  static std::string node(int i) {
    return fmt::format("n{}", i);
  }

  std::string strike_worker(int number) {
    const auto actor = random_() % actors_.size();
    const auto pid = actors_[actor].call<Number>("pid", google::protobuf::Empty{}, 2s).get();
    if (!pid)
      return "found no worker";
    ::kill(static_cast<pid_t>(pid->value()), number);
    return fmt::format("{} the worker of a{}", number == SIGKILL ? "killed" : "froze", actor);
  }

  std::minstd_rand random_;
  Processes processes_{Processes::link_timeout};
  std::optional<Cluster> cluster_;
  std::vector<ActorRef> actors_;
};

} // namespace

TEST_CASE("a cluster whose parts are killed and frozen answers every call and loses nothing", "[processes][chaos]") {
  const char* wanted = std::getenv("GPUACTORS_CHAOS_EVENTS");
  const int events = wanted != nullptr ? std::atoi(wanted) : 100;
  const char* seed = std::getenv("GPUACTORS_CHAOS_SEED");
  Chaos chaos(seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 1);
  {
    Load load(chaos.cluster(), chaos.actors());
    for (int event = 0; event < events; ++event) {
      const auto what = chaos.strike();
      INFO(fmt::format("event {}: {}", event, what));
      const bool whole = eventually([&] { return chaos.is_whole(); });
      if (!whole)
        UNSCOPED_INFO(must(chaos.cluster().state({.events_from = 1})).ShortDebugString());
      REQUIRE(whole);
    }
    load.stop();
    CHECK(load.late == 0);
    CHECK(load.answered > 0);
    UNSCOPED_INFO(fmt::format("{} answered, {} failed", load.answered.load(), load.failed.load()));
  }
  CHECK(chaos.end());
}
