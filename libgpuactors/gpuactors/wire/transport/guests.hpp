// The connections of one port of a server: a bounded number, a thread each.
#pragma once

#include <gpuactors/wire/transport/channel.hpp>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace gpuactors::transport {

/// What a connection is doing.
enum class GuestState : std::uint8_t {
  /// It has asked for nothing yet.
  stranger,
  /// A request of it is served.
  busy,
  /// It may ask again.
  idle,
};

/// Threads start with `add` and are joined by the thread that adds. Any thread may ask for `size`.
class Guests {
public:
  /// One connection, for its own thread.
  class Guest {
  public:
    Guest(Guests& house, Channel channel) : house_(house), channel_(std::move(channel)) {
      // nop
    }

    [[nodiscard]] Channel& channel() noexcept {
      return channel_;
    }

    void set(GuestState state) {
      house_.set(*this, state);
    }

  private:
    friend class Guests;

    Guests& house_;
    Channel channel_;
    // Guarded by the mutex of its house.
    GuestState state_ = GuestState::stranger;
    bool evicted_ = false;
    TimePoint since_ = Clock::now();
    std::thread thread_;
  };

  /// `changed` is set when somebody has left, or is idle while others wait; it outlives this object.
  Guests(Signal& changed, std::size_t most) : changed_(changed), most_(most) {
    // nop
  }

  Guests(const Guests&) = delete;
  Guests& operator=(const Guests&) = delete;

  /// Whether there is room for one more. If not, one that does nothing was perhaps sent away: ask again when `changed`
  /// is set, or at `again` at the latest, which is only ever made earlier.
  bool make_room(TimePoint& again);

  /// Sends one that does nothing away: its descriptor is needed.
  void evict();

  /// Serves a connection until `serve` returns.
  void add(Channel channel, std::function<void(Guest&)> serve);

  void join_ended();
  /// Once `stop` of the channels is set: waits for all.
  void join_all();

  [[nodiscard]] std::size_t size() const;

private:
  using List = std::list<Guest>;

  void set(Guest& guest, GuestState state);
  void leave(List::iterator guest);
  /// The one that has been in this state for longest, not counting those that are leaving.
  Guest* oldest(GuestState state);
  void evict(Guest* guest);

  Signal& changed_;
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable left_;
  // Guarded by `mutex_`.
  List here_;
  List gone_;
  bool others_wait_ = false;
};

} // namespace gpuactors::transport
