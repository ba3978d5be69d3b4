#include <gpuactors/cluster/detail/actor_end.hpp>

#include <mutex>
#include <utility>

namespace gpuactors::detail {

namespace {

/// Completes a future with the broker's answer.
class EndReply : public FutureState<ActorEnd>, public PendingReply {
public:
  explicit EndReply(std::shared_ptr<ActorCell> cell) : cell_(std::move(cell)) {
    // nop
  }

  void on_reply(MessageContent& content) override {
    const auto& info = content.get_as<v1::ActorInfo>(0);
    if (info.state() != "ended")
      return on_error(Error{Errc::unsupported, "the broker is of a release that does not tell when actors end"});
    if (cell_ != nullptr) {
      const std::lock_guard lock{cell_->mutex};
      cell_->ended = Error{Errc::actor_died, info.end_reason()};
    }
    complete(ActorEnd{Error{errc_from_number(static_cast<std::uint8_t>(info.end_error())), info.end_reason()}});
  }

  void on_error(Error error) override {
    complete(fail(std::move(error)));
  }

private:
  std::shared_ptr<ActorCell> cell_;
};

} // namespace

Future<ActorEnd> await_end(ClusterCore& core, const v1::ActorHandle& actor, std::shared_ptr<ActorCell> cell) {
  auto reply = std::make_shared<EndReply>(std::move(cell));
  reply->executor = core.executor();
  v1::FindActor message;
  message.set_id(actor.id());
  *message.mutable_handle() = actor;
  message.set_until_ended(true);
  core.ask_for_actor(reply, never, std::move(message));
  return Future<ActorEnd>{std::move(reply)};
}

} // namespace gpuactors::detail
