// Lanes: messages to actors of other processes, on the shortest way there is. CAF hands each to its event loop, which
// has to be woken for it; here the thread that sends it puts it into its process's own connection.
#pragma once

#include <gpuactors/wire/caf_version.hpp>

#include <functional>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

namespace gpuactors {

namespace transport {
class Pipe;
} // namespace transport

/// The connections of one process that stand, by the process at the other end. Any thread.
///
/// A sender's messages to one receiver keep their order as long as all of them go through here, or all through CAF; one
/// that CAF sends after one from here arrives after it.
class Lanes {
public:
  explicit Lanes(caf::actor_system& system) : system_(system) {
    // nop
  }

  using Sent = caf_version::Written;

  /// Sends `xs` from `from`, an actor of this process; `id` of zero makes it asynchronous.
  /// @returns `not_here` when the receiver is in this process, or has no connection with it: CAF has to see to it then;
  /// `unwritable` for what cannot be serialized: CAF would send a part of it, which is dropped.
  template <class... Ts>
  Sent send(const caf::strong_actor_ptr& to, const caf::strong_actor_ptr& from, std::uint64_t id, const Ts&... xs) {
    const auto pipe = find(to);
    if (pipe == nullptr)
      return Sent::not_here;
    auto& message = scratch();
    const auto written = caf_version::write_message(system_, message, to, from, id, xs...);
    return written == Sent::done && !write(*pipe, message) ? Sent::not_here : written;
  }

  /// A connection to this process stands, and CAF uses it.
  void add(const caf::node_id& node, std::shared_ptr<transport::Pipe> pipe);

  /// Has `added` told of each connection from now on, in the event loop and before anybody else knows of it: what is
  /// sent there is the first message after CAF's own. For tests.
  void watch(std::function<void(const caf::node_id&)> added);

  /// It has ended.
  void remove(const caf::node_id& node, const transport::Pipe* pipe);

private:
  /// The way to an actor of another process; null if there is none.
  [[nodiscard]] std::shared_ptr<transport::Pipe> find(const caf::strong_actor_ptr& to) const;

  /// A buffer of this thread.
  static caf_version::LinkBuffer& scratch();

  static bool write(transport::Pipe& pipe, caf_version::LinkBuffer& message);

  caf::actor_system& system_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<caf::node_id, std::shared_ptr<transport::Pipe>> pipes_;
  std::function<void(const caf::node_id&)> added_;
};

/// Sends `xs` by `lanes`, if there are any, or by CAF.
/// @returns false when it cannot be serialized, as far as that is known.
template <class... Ts>
bool send_message(Lanes* lanes, const caf::strong_actor_ptr& to, const caf::strong_actor_ptr& from, std::uint64_t id,
                  Ts&&... xs) {
  const auto sent = lanes != nullptr ? lanes->send(to, from, id, xs...) : Lanes::Sent::not_here;
  if (sent == Lanes::Sent::not_here)
    caf_version::enqueue(to, from, id, std::forward<Ts>(xs)...);
  return sent != Lanes::Sent::unwritable;
}

} // namespace gpuactors
