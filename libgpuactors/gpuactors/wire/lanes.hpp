// Lanes: the shortest way for messages to actors of other processes. CAF hands each message to its event loop, which
// must be woken for it; on a lane, the sending thread itself writes the message to its process's connection.
#pragma once

#include <gpuactors/base/caller.hpp>
#include <gpuactors/wire/caf_version.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

namespace gpuactors {

namespace transport {
class Pipe;
} // namespace transport

/// The established connections of one process, by the process at the other end. Any thread.
///
/// A sender's messages to one receiver keep their order if all of them use the lane, or all of them use CAF. A message
/// that CAF sends after one sent by the lane also arrives after it.
class Lanes {
public:
  /// @param secure whether peers show certificates.
  Lanes(caf::actor_system& system, bool secure) : system_(system), secure_(secure) {
    // nop
  }

  using Sent = caf_version::Written;

  /// Sends `xs` from `from`, an actor of this process. An `id` of zero makes the message asynchronous.
  /// @returns `not_here` if the receiver is in this process or has no connection to it, and CAF must send the message;
  ///          `unwritable` if the message cannot be serialized: CAF would send part of it, which the receiver drops.
  template <class... Ts>
  Sent send(const caf::strong_actor_ptr& to, const caf::strong_actor_ptr& from, std::uint64_t id, const Ts&... xs) {
    const auto pipe = find(to);
    if (pipe == nullptr)
      return Sent::not_here;
    auto* const kept = scratch();
    caf_version::LinkBuffer own;
    auto& message = kept != nullptr ? *kept : own;
    const auto written = caf_version::write_message(system_, message, to, from, id, xs...);
    return written == Sent::done && !write(*pipe, message) ? Sent::not_here : written;
  }

  /// Enters an established connection to `node` that CAF uses too, and who is at its other end.
  void add(const caf::node_id& node, std::shared_ptr<transport::Pipe> pipe, Caller caller);

  /// Returns whether the process `node` is known as that of somebody else who is here, or who administers: nobody
  /// without that right gets a name that was ever theirs.
  [[nodiscard]] bool is_anothers(const caf::node_id& node, const Caller& caller) const;

  /// Returns who `actor` belongs to. If the connection to its process has ended, that is somebody without a name who
  /// may not administer.
  [[nodiscard]] Caller caller_of(const caf::strong_actor_ptr& actor) const;

  /// Returns whether they may administer.
  [[nodiscard]] bool administers(const caf::strong_actor_ptr& actor) const;

  /// Makes `added` the callback for each new connection. It runs in the event loop before anybody else knows of the
  /// connection, so a message sent from it is the first one after CAF's handshake. For tests.
  void watch(std::function<void(const caf::node_id&)> added);

  /// Removes a connection that has ended. No effect if `node` has a newer one.
  void remove(const caf::node_id& node, const transport::Pipe* pipe);

private:
  struct Entry {
    std::shared_ptr<transport::Pipe> pipe;
    Caller caller;
  };

  /// Returns the connection to the process of `to`; null if there is none, or `to` is in this process.
  [[nodiscard]] std::shared_ptr<transport::Pipe> find(const caf::strong_actor_ptr& to) const;

  /// Returns this thread's serialization buffer; null while the thread ends.
  static caf_version::LinkBuffer* scratch();

  static bool write(transport::Pipe& pipe, caf_version::LinkBuffer& message);

  caf::actor_system& system_;
  const bool secure_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<caf::node_id, Entry> entries_;
  /// Processes that administer, also those that are away; of very many only the latest.
  std::unordered_set<caf::node_id> servers_;
  std::deque<caf::node_id> servers_by_age_;
  std::function<void(const caf::node_id&)> added_;
};

/// Sends `xs` by `lanes` if possible, else by CAF. `lanes` may be null.
/// @returns false if the lane found that the message cannot be serialized; CAF does not report it.
template <class... Ts>
bool send_message(Lanes* lanes, const caf::strong_actor_ptr& to, const caf::strong_actor_ptr& from, std::uint64_t id,
                  Ts&&... xs) {
  const auto sent = lanes != nullptr ? lanes->send(to, from, id, xs...) : Lanes::Sent::not_here;
  if (sent == Lanes::Sent::not_here)
    caf_version::enqueue(to, from, id, std::forward<Ts>(xs)...);
  return sent != Lanes::Sent::unwritable;
}

} // namespace gpuactors
