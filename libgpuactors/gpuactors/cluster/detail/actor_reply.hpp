// Futures for the broker's answers about actors. Internal to the cluster layer.
#pragma once

#include <gpuactors/cluster/actor_ref.hpp>
#include <gpuactors/cluster/detail/actor_cell.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/message_reply.hpp>
#include <gpuactors/cluster/detail/worker_links.hpp>
#include <gpuactors/wire/closed.hpp>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

namespace gpuactors::detail {

/// The answer to a spawn or a look-up.
class ActorReply : public MadeReply<ActorRef>, public std::enable_shared_from_this<ActorReply> {
public:
  using MadeReply::MadeReply;

  void on_reply(MessageContent& content) override {
    const auto core = this->core().lock();
    if (core == nullptr)
      return on_error(cluster_closed());
    const auto& info = content.get_as<v1::ActorInfo>(0);
    core->locate(info, handles_in(content),
                 [self = shared_from_this(), info](const Result<HolderHandles>& found) { self->located(info, found); });
  }

private:
  void located(const v1::ActorInfo& info, const Result<HolderHandles>& found) {
    const auto core = this->core().lock();
    if (core == nullptr)
      return on_error(cluster_closed());
    auto cell = std::make_shared<ActorCell>();
    cell->core = core;
    cell->id = ActorId{info.id()};
    cell->name = info.name();
    cell->type = info.type();
    const auto type = core->registry().find_actor(cell->type);
    cell->known_type = type ? *type : nullptr;
    cell->origin = info.origin();
    cell->max_pending = info.max_pending_calls();
    cell->pending = core->pending_of(cell->id);
    cell->max_retries = info.max_task_retries();
    if (found) {
      core->set_life(*cell, info, *found);
    } else if (holder_has_ended(found.error())) {
      // The actor has died since: the next call looks it up again.
      cell->info = info;
      cell->down = true;
    } else {
      return on_unreachable(found.error());
    }
    complete(ActorRef{std::move(cell)});
  }
};

/// The answer to a look-up. Cancelling it leaves the actor as it is.
class FoundReply : public ActorReply {
public:
  FoundReply(std::weak_ptr<ClusterCore> core, std::string who, Duration timeout)
    : ActorReply(std::move(core), 0), who_(std::move(who)), timeout_(timeout) {
    // nop
  }

  void on_error(Error error) override {
    if (error.code() == Errc::deadline_exceeded)
      error = Error{Errc::deadline_exceeded, fmt::format("actor {} has not been ready within {:.1f} s: it waits for a "
                                                         "place, starts, or the broker is away",
                                                         who_, to_seconds(timeout_))};
    ActorReply::on_error(std::move(error));
  }

  void on_unreachable(Error error) override {
    on_error(std::move(error));
  }

private:
  const std::string who_;
  const Duration timeout_;
};

} // namespace gpuactors::detail
