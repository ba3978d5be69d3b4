// Lanes: messages to actors of other processes, on the shortest way there is. CAF hands each to its event loop, which
// has to be woken for it; here the thread that sends it puts it into its process's own connection.
#pragma once

#include <gpuactors/wire/caf_version.hpp>

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

  /// Sends `xs` from `from`, an actor of this process; `id` of zero makes it asynchronous.
  /// @returns false when `to` is in this process, or has no connection of its own with it: CAF then has to send it.
  template <class... Ts>
  bool send(const caf::strong_actor_ptr& to, const caf::strong_actor_ptr& from, std::uint64_t id, const Ts&... xs) {
    if (to == nullptr || to->node() == system_.node())
      return false;
    const auto pipe = find(to->node());
    if (pipe == nullptr)
      return false;
    auto& message = scratch();
    return caf_version::write_message(system_, message, to, from, id, xs...) && write(*pipe, message);
  }

  /// A connection to this process stands.
  void add(const caf::node_id& node, std::shared_ptr<transport::Pipe> pipe);

  /// It has ended.
  void remove(const caf::node_id& node, const transport::Pipe* pipe);

private:
  [[nodiscard]] std::shared_ptr<transport::Pipe> find(const caf::node_id& node) const;

  /// A buffer of this thread.
  static caf_version::LinkBuffer& scratch();

  static bool write(transport::Pipe& pipe, const caf_version::LinkBuffer& message);

  caf::actor_system& system_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<caf::node_id, std::shared_ptr<transport::Pipe>> pipes_;
};

/// Sends `xs` by `lanes`, if there are any, or by CAF.
template <class... Ts>
void send_message(Lanes* lanes, const caf::strong_actor_ptr& to, const caf::strong_actor_ptr& from, std::uint64_t id,
                  Ts&&... xs) {
  if (lanes == nullptr || !lanes->send(to, from, id, xs...))
    caf_version::enqueue(to, from, id, std::forward<Ts>(xs)...);
}

/// Answers a request of an actor in `self`, which made `promise` for it.
template <class T>
void answer(Lanes* lanes, const caf::strong_actor_ptr& self, caf::response_promise& promise, T&& x) {
  if (lanes != nullptr)
    if (const auto [to, id] = caf_version::answer_to(promise); to != nullptr && lanes->send(to, self, id, x))
      return;
  promise.deliver(std::forward<T>(x));
}

} // namespace gpuactors
