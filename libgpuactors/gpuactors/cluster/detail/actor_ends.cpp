#include <gpuactors/cluster/detail/actor_ends.hpp>
#include <gpuactors/cluster/detail/core.hpp>

#include <algorithm>
#include <vector>

namespace gpuactors::detail {

class ActorEnds::Waiter : public FutureState<ActorEnd> {
public:
  void cancel(Cancel) override {
    complete(fail(Errc::cancelled, "the wait for the actor's end was cancelled"));
  }
};

/// A request to the broker, and those who wait for its answer, as long as they do.
class ActorEnds::Watch : public OwnReply {
public:
  Watch(std::weak_ptr<ActorEnds> ends, Key key) : ends_(std::move(ends)), key_(std::move(key)) {
    // nop
  }

  void on_reply(MessageContent& content) override {
    const auto& info = content.get_as<v1::ActorInfo>(0);
    if (info.state() != "ended")
      return on_error(Error{Errc::unsupported, "the broker is of a release that does not tell when actors end"});
    tell(ActorEnd{ActorId{info.id()}, info.name(), info.type(),
                  Error{errc_from_number(info.end_error()), info.end_reason()}});
  }

  void on_error(Error error) override {
    tell(fail(std::move(error)));
  }

  // With the lock of `ActorEnds`.

  void add(const std::shared_ptr<Waiter>& waiter, const std::shared_ptr<ActorCell>& cell) {
    constexpr std::size_t fewest = 16;
    if (waiting_.size() >= next_look_) {
      std::erase_if(waiting_, [](const auto& entry) { return entry.first.expired(); });
      next_look_ = std::max(fewest, 2 * waiting_.size());
    }
    waiting_.emplace_back(waiter, cell);
  }

  [[nodiscard]] auto take() {
    return std::exchange(waiting_, {});
  }

private:
  void tell(const Result<ActorEnd>& end) {
    if (const auto ends = ends_.lock())
      ends->tell(key_, end);
  }

  const std::weak_ptr<ActorEnds> ends_;
  const Key key_;
  std::vector<std::pair<std::weak_ptr<Waiter>, std::weak_ptr<ActorCell>>> waiting_;
  std::size_t next_look_ = 16;
};

Future<ActorEnd> ActorEnds::await(ClusterCore& core, const ActorKey& actor, const std::shared_ptr<ActorCell>& cell) {
  v1::FindActor question;
  actor.write_to(question);
  const Key key{question.id(), question.handle().origin(), question.name_space(), question.name()};
  const auto waiter = std::make_shared<Waiter>();
  waiter->executor = core.executor();
  std::shared_ptr<Watch> asks;
  {
    const std::lock_guard lock{mutex_};
    auto& watch = watches_[key];
    if (watch == nullptr)
      asks = watch = std::make_shared<Watch>(weak_from_this(), key);
    watch->add(waiter, cell);
  }
  // Without the lock: an error comes at once.
  if (asks != nullptr) {
    question.set_until_ended(true);
    core.ask_for_actor(asks, never, std::move(question));
  }
  return Future<ActorEnd>{waiter};
}

void ActorEnds::tell(const Key& key, const Result<ActorEnd>& end) {
  std::shared_ptr<Watch> watch;
  {
    const std::lock_guard lock{mutex_};
    if (const auto found = watches_.extract(key); !found.empty())
      watch = found.mapped();
  }
  if (watch == nullptr)
    return;
  // Nobody else has it any more.
  for (const auto& [waiting, asked_by] : watch->take()) {
    if (const auto cell = asked_by.lock(); cell != nullptr && end) {
      const std::lock_guard lock{cell->mutex};
      cell->ended = Error{Errc::actor_died, end->reason.message()};
    }
    if (const auto waiter = waiting.lock())
      waiter->complete(end);
  }
}

} // namespace gpuactors::detail
