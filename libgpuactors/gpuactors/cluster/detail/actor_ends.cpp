#include <gpuactors/cluster/detail/actor_ends.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/wire/closed.hpp>

#include <algorithm>

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
  Watch(std::weak_ptr<ActorEnds> ends, std::weak_ptr<ClusterCore> core, Key key, bool by_name)
    : ends_(std::move(ends)), core_(std::move(core)), key_(std::move(key)), by_name_(by_name) {
    // nop
  }

  void on_reply(MessageContent& content) override {
    const auto& info = content.get_as<v1::ActorInfo>(0);
    const auto ends = ends_.lock();
    if (info.state() != "ended" && by_name_)
      return ends != nullptr ? ends->follow(key_, info, core_) : void();
    if (info.state() != "ended")
      return on_error(Error{Errc::unsupported, "the broker is of a release that does not tell when actors end"});
    tell(ActorEnd{ActorId{info.id()}, info.name(), info.type(),
                  Error{errc_from_number(info.end_error()), info.end_reason()}});
  }

  void on_error(Error error) override {
    tell(fail(std::move(error)));
  }

  // With the lock of `ActorEnds`.

  void add(const Waiting& waiting) {
    constexpr std::size_t fewest = 16;
    if (waiting_.size() >= next_look_) {
      std::erase_if(waiting_, [](const auto& entry) { return entry.first.expired(); });
      next_look_ = std::max(fewest, 2 * waiting_.size());
    }
    waiting_.insert(waiting_.end(), waiting.begin(), waiting.end());
  }

  [[nodiscard]] Waiting take() {
    return std::exchange(waiting_, {});
  }

private:
  void tell(const Result<ActorEnd>& end) {
    if (const auto ends = ends_.lock())
      ends->tell(key_, end);
  }

  const std::weak_ptr<ActorEnds> ends_;
  const std::weak_ptr<ClusterCore> core_;
  const Key key_;
  const bool by_name_;
  Waiting waiting_;
  std::size_t next_look_ = 16;
};

Future<ActorEnd> ActorEnds::await(ClusterCore& core, const ActorKey& actor, const std::shared_ptr<ActorCell>& cell) {
  const auto waiter = std::make_shared<Waiter>();
  waiter->executor = core.executor();
  add(core, actor, {{waiter, cell}});
  return Future<ActorEnd>{waiter};
}

void ActorEnds::add(ClusterCore& core, const ActorKey& actor, const Waiting& waiting) {
  v1::FindActor question;
  actor.write_to(question);
  const Key key{question.id(), question.handle().origin(), question.name_space(), question.name()};
  std::shared_ptr<Watch> asks;
  {
    const std::lock_guard lock{mutex_};
    auto& watch = watches_[key];
    if (watch == nullptr)
      asks = watch = std::make_shared<Watch>(weak_from_this(), core.weak_from_this(), key, actor.is_name());
    watch->add(waiting);
  }
  // Without the lock: an error comes at once.
  if (asks != nullptr) {
    question.set_until_ended(true);
    question.set_only_who(actor.is_name());
    core.ask_for_actor(asks, never, std::move(question));
  }
}

void ActorEnds::follow(const Key& name, const v1::ActorInfo& actor, const std::weak_ptr<ClusterCore>& core) {
  const auto kept = core.lock();
  if (kept == nullptr)
    return tell(name, fail(cluster_closed()));
  v1::ActorHandle reference;
  reference.set_id(actor.id());
  reference.set_origin(actor.origin());
  reference.set_name(actor.name());
  reference.set_type(actor.type());
  if (const auto waiting = take(name); !waiting.empty())
    add(*kept, reference, waiting);
}

ActorEnds::Waiting ActorEnds::take(const Key& key) {
  const std::lock_guard lock{mutex_};
  const auto found = watches_.extract(key);
  return found.empty() ? Waiting{} : found.mapped()->take();
}

void ActorEnds::tell(const Key& key, const Result<ActorEnd>& end) {
  for (const auto& [waiting, asked_by] : take(key)) {
    if (const auto cell = asked_by.lock(); cell != nullptr && end) {
      const std::lock_guard lock{cell->mutex};
      cell->ended = Error{Errc::actor_died, end->reason.message()};
    }
    if (const auto waiter = waiting.lock())
      waiter->complete(end);
  }
}

} // namespace gpuactors::detail
