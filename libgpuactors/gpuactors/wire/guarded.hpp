// Guarded: keeps messages that a client's certificate does not permit out of the mailbox of a control actor.
#pragma once

#include <gpuactors/base/error.hpp>
#include <gpuactors/wire/errors.hpp>
#include <gpuactors/wire/lanes.hpp>
#include <gpuactors/wire/messages.hpp>

#include <fmt/format.h>

#include <memory>
#include <utility>

namespace gpuactors {

/// An actor of type `Base` that gets from clients only what `Permitted`, a `FromClients`, permits. Any other request of
/// theirs is answered with `permission_denied`, any other message is dropped: so an actor's handlers need not ask who
/// sent what only nodes send. Senders that administer, and those in this process, are not restricted
/// (docs/design/0020-rights.md).
template <class Base, class Permitted>
class Guarded : public Base {
public:
  /// @param lanes the process's connections; null: there are no other processes.
  /// @param arguments for `Base`.
  template <class... Args>
  explicit Guarded(caf::actor_config& config, std::shared_ptr<const Lanes> lanes, Args&&... arguments)
    : Base(config, std::forward<Args>(arguments)...), lanes_(std::move(lanes)) {
    // nop
  }

  using Base::enqueue;

  caf_version::EnqueueResult enqueue(caf::mailbox_element_ptr element, caf_version::RunnerBase* runner) override {
    // A message without a sender comes from this process or from a node: a client's connection ends at such a one.
    if (lanes_ == nullptr || element->sender == nullptr || Permitted::permits(MessageContent{element->content()})
        || lanes_->administers(element->sender))
      return Base::enqueue(std::move(element), runner);
    if (element->mid.is_request())
      caf_version::refuse(
          *element, caf::actor_cast<caf::strong_actor_ptr>(this),
          to_caf(Error{Errc::permission_denied,
                       fmt::format("the certificate of \"{}\" is a client's, which may use the cluster but neither "
                                   "serve nor administer it: a node's is needed (gpuactors certs issue NAME)",
                                   lanes_->caller_of(element->sender).name)}));
    return caf_version::EnqueueResult(true);
  }

protected:
  /// Returns the sender of the message that is being handled. Call it before an answer's promise is made: CAF moves the
  /// sender into that.
  [[nodiscard]] Caller caller() {
    const auto& sender = this->current_sender();
    return lanes_ == nullptr || sender == nullptr ? Caller{}
                                                  : lanes_->caller_of(caf::actor_cast<caf::strong_actor_ptr>(sender));
  }

  /// Returns whether the message that is being handled comes from this process, or from somebody who administers.
  [[nodiscard]] bool is_from_server() {
    const auto& sender = this->current_sender();
    return lanes_ == nullptr || sender == nullptr
           || lanes_->administers(caf::actor_cast<caf::strong_actor_ptr>(sender));
  }

private:
  std::shared_ptr<const Lanes> lanes_;
};

} // namespace gpuactors
