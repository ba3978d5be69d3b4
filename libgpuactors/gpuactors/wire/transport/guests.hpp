// Guests: the connections of one listening port, bounded in number, with one thread each.
#pragma once

#include <gpuactors/wire/transport/channel.hpp>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace gpuactors::transport {

/// The state of a connection.
enum class GuestState : std::uint8_t {
  /// The peer has sent no request yet.
  stranger,
  /// A request of the peer is being served.
  busy,
  /// The peer may send another request.
  idle,
};

/// Whether there is room for one more connection: `soon` once somebody who was evicted for it has left.
enum class Room : std::uint8_t { here, soon, none };

/// A set of connections and their threads. One thread adds connections and joins ended threads; any thread may call
/// `size`.
class Guests {
public:
  /// One connection, to be used by its own thread.
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
    // Guarded by the mutex of `house_`.
    GuestState state_ = GuestState::stranger;
    bool evicted_ = false;
    TimePoint since_ = Clock::now();
    std::thread thread_;
  };

  /// `changed` is set when a connection has ended, or becomes idle while others wait for room; it must outlive this
  /// object.
  Guests(Signal& changed, std::size_t most) : changed_(changed), most_(most) {
    // nop
  }

  Guests(const Guests&) = delete;
  Guests& operator=(const Guests&) = delete;

  /// Returns whether there is room for one more connection. If there is none, an idle one or a stranger may be evicted:
  /// ask again when `changed` is set, or at `again` at the latest. `again` is only ever moved to an earlier time.
  Room make_room(TimePoint& again);

  /// Evicts the oldest stranger or, without one, the oldest idle connection, because its descriptor is needed.
  void evict();

  /// Serves a connection on a new thread until `serve` returns. Closes it if there is no thread left, or after
  /// `join_all`.
  void add(Channel channel, std::function<void(Guest&)> serve);

  void join_ended();
  /// Waits for all connections to end. Set the `stop` signal of their channels first.
  void join_all();

  [[nodiscard]] std::size_t size() const;

private:
  using List = std::list<Guest>;

  void set(Guest& guest, GuestState state);
  void leave(List::iterator guest);
  /// Returns the connection that has been in this state for longest, ignoring evicted ones; null if there is none.
  Guest* oldest(GuestState state);
  Room evict(Guest* guest);

  Signal& changed_;
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable left_;
  // Guarded by `mutex_`.
  List here_;
  List gone_;
  bool others_wait_ = false;
  bool closed_ = false;
};

} // namespace gpuactors::transport
