// Hosts with a network between them whose paths are cut in each direction, and processes on them that die and freeze:
// what the simulation of two brokers plays on. One thread.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

using namespace gpuactors;

class Hosts {
public:
  struct Process;

  /// A connection. Each end has its own view of whether it lives.
  struct Link {
    struct End {
      Process* process = nullptr;
      std::uint64_t life = 0;
      bool open = true;
      TimePoint heard{};
      std::function<void()> lost{};
      /// To this end, and not arrived yet.
      std::deque<std::function<void()>> coming{};
    };

    End ends[2]; // the one that has dialled, the other one

    /// The end of this process.
    End& of(const Process& process) {
      return ends[0].process == &process ? ends[0] : ends[1];
    }

    End& other(const Process& process) {
      return ends[0].process == &process ? ends[1] : ends[0];
    }
  };

  using LinkPtr = std::shared_ptr<Link>;

  struct Process {
    std::string name;
    std::size_t host = 0;
    /// Changes with each start.
    std::uint64_t life = 0;
    bool alive = false;
    bool frozen = false;
    /// Whoever dials it is accepted.
    bool listens = false;
    /// What it has not done since it is frozen.
    std::vector<std::function<void()>> late{};
  };

  Hosts(std::uint64_t seed, Duration link_timeout) : random_(seed), link_timeout_(link_timeout) {
    // nop
  }

  [[nodiscard]] TimePoint now() const noexcept {
    return now_;
  }

  std::uint64_t random() {
    return random_();
  }

  std::uint64_t below(std::uint64_t n) {
    return random_() % n;
  }

  Duration between(Duration least, Duration most) {
    return least + Duration{static_cast<Duration::rep>(below(static_cast<std::uint64_t>((most - least).count()) + 1))};
  }

  void run(Duration time);

  /// Whatever lives or dies.
  void after(Duration wait, std::function<void()> what);

  /// If the process lives then; later, if it is frozen.
  void after(Process& process, Duration wait, std::function<void()> what);

  void start(Process& process);
  void kill(Process& process);
  void freeze(Process& process);
  void thaw(Process& process);
  /// Without a word to those with whom its processes have connections.
  void power_off(std::size_t host, const std::vector<Process*>& processes);

  void cut(std::size_t from, std::size_t to) {
    if (from != to)
      cuts_.insert({from, to});
  }

  void heal(std::size_t from, std::size_t to) {
    cuts_.erase({from, to});
  }

  void heal() {
    cuts_.clear();
  }

  /// Calls `done` with the connection, or with nothing after a while.
  void dial(Process& from, Process& to, std::function<void(LinkPtr)> done);

  /// Sends to the other end. In order; what is cut waits as long as the connection lives.
  void send(const LinkPtr& link, const Process& from, std::function<void()> arrives);

  void close(const LinkPtr& link, const Process& by);

private:
  [[nodiscard]] bool passes(std::size_t from, std::size_t to) const {
    return cuts_.count({from, to}) == 0;
  }

  static void act(Process& process, std::function<void()> what);
  void tend(const LinkPtr& link);
  /// What of one end reaches the other.
  void deliver(const LinkPtr& link, Link::End& from, Link::End& to);
  void try_to_connect(Process& from, Process& to, TimePoint deadline, const std::function<void(LinkPtr)>& done);

  std::mt19937_64 random_;
  const Duration link_timeout_;
  TimePoint now_{std::chrono::hours{1}};
  std::uint64_t count_ = 0;
  std::map<std::pair<TimePoint, std::uint64_t>, std::function<void()>> due_;
  std::set<std::pair<std::size_t, std::size_t>> cuts_;
  std::set<std::size_t> silent_; // hosts that were powered off, whose connections say nothing
};

} // namespace simulation
