#include "group_run.hpp"
#include "team_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <utility>

namespace train {

using namespace std::chrono_literals;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// How long a member may take to say that it lives.
constexpr auto sign_of_life = 15s;
/// And how long it may go on with the step that it has begun, if it does say so.
constexpr auto longest_step = 30min;

} // namespace

std::string group_name() {
  static std::atomic<unsigned> count{0};
  return fmt::format("train-{:x}-{:x}-{}", ::getpid(),
                     std::chrono::system_clock::now().time_since_epoch().count() & 0xFFFFFFFF, count++);
}

Result<void> Group::take_places() {
  const std::vector<gpuactors::Options> bundles(spec_.workers, spec_.options);
  // What a member leaves is there for others at once, and a lost device costs no other member its own.
  auto asked = cluster_.create_group_async(bundles, {.shrinks = true});
  const auto notice_at = Clock::now() + 1s;
  for (bool said = false;;) {
    auto places = asked.get(look);
    if (places)
      places_ = places->id;
    if (!asked.valid())
      return places ? Result<void>{} : gpuactors::fail(places.error());
    if (watcher_.stop()) {
      asked.cancel();
      return gpuactors::fail(Errc::cancelled, "it was stopped while it waited for devices");
    }
    if (!said && Clock::now() > notice_at) {
      watcher_.notice(fmt::format("waiting for devices for {} workers", spec_.workers));
      said = true;
    }
  }
}

Result<void> Group::start() {
  GPUACTORS_TRY(take_places());
  const auto name = group_name();
  std::vector<gpuactors::Future<gpuactors::ActorRef>> starting;
  for (std::size_t i = 0; i < spec_.workers; ++i) {
    auto options = spec_.options;
    options.name = fmt::format("{}-{}", name, i);
    options.max_restarts = 0; // what one has learnt would be lost: the group decides
    options.group = *places_;
    options.bundle = static_cast<int>(i);
    starting.push_back(cluster_.spawn_async("train_member", spec_.plan, options));
  }
  std::optional<gpuactors::Error> failed;
  Watcher patience;
  patience.stop = [&] { return watcher_.stop() || failed; };
  for (auto& member : starting) {
    auto started = await_start(std::move(member), patience);
    if (started)
      members_.push_back(*started);
    else if (!failed)
      failed = started.error();
  }
  if (failed)
    return gpuactors::fail(*failed);
  std::vector<Status> states;
  for (const auto& member : members_) {
    GPUACTORS_LET(state, member.call<Status>("status").get());
    states.push_back(std::move(state));
  }
  by_nccl_ = can_sum_by_nccl(states);
  if (by_nccl_)
    watcher_.notice("gradients are summed by NCCL");
  epochs_ = states.front().epochs();
  if (states.front().has_last_loss())
    loss_ = states.front().last_loss();
  outcome_.begin_at(states.front());
  return watcher_.begins(states.front());
}

Result<Status> Group::await_join(gpuactors::Future<Status> joined) {
  auto until = gpuactors::never;
  for (;;) {
    auto status = joined.get(look);
    if (!joined.valid())
      return status;
    // Who is told to stop waits for no member that gives no sign of life, and for the others it does.
    if (until == gpuactors::never && watcher_.stop())
      until = Clock::now() + sign_of_life;
    if (Clock::now() > until) {
      joined.cancel();
      return status;
    }
  }
}

Result<void> Group::form() {
  for (bool again = true;;) {
    auto peers = gpuactors::form_collective(members_, sign_of_life);
    if (peers) {
      peers_ = *peers;
      return {};
    }
    const auto before = members_.size();
    // Nothing is summed yet: no matter for NCCL.
    const auto lost = lose(peers.error(), false);
    // All live: one of them was late, or away for a moment.
    const bool is_whole = members_.size() == before;
    if (!lost && !(is_whole && std::exchange(again, false)))
      return lost;
  }
}

Result<void> Group::join() {
  Places places;
  places.set_members(static_cast<std::int64_t>(members_.size()));
  places.set_epochs(epochs_);
  if (by_nccl_) {
    GPUACTORS_LET(id, members_.front().call<NcclId>("nccl_id").get());
    places.set_nccl_id(id.id());
  }
  std::vector<gpuactors::Future<Status>> joining;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    places.set_rank(static_cast<std::int64_t>(rank));
    joining.push_back(members_[rank].call<Status>("join", places));
  }
  Result<void> result;
  for (auto& joined : joining) {
    const auto status = await_join(std::move(joined));
    if (!status && result)
      result = gpuactors::fail(status.error());
    else if (status)
      outcome_.steps_per_epoch = status->steps_per_epoch();
  }
  joined_ = result.has_value();
  return result;
}

Result<void> Group::join_all() {
  while (!joined_) {
    GPUACTORS_TRY(form());
    // NCCL has no part in a refusal of this training.
    if (const auto made = join(); !made)
      GPUACTORS_TRY(lose(made.error(), made.error().code() != Errc::invalid_argument));
  }
  return {};
}

std::vector<bool> Group::leave() {
  joined_ = false;
  if (peers_)
    peers_->abort("the epoch was given up");
  // It leaves behind the step that it has begun, which may take long. Whether it lives, it says at once.
  std::vector<gpuactors::Future<google::protobuf::Empty>> leaving;
  for (const auto& member : members_)
    leaving.push_back(member.call("leave", google::protobuf::Empty{}, longest_step));
  std::vector<bool> alive;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    auto left = leaving[i].get(sign_of_life);
    if (leaving[i].valid())
      watcher_.notice(
          fmt::format("worker {} is in the middle of a step, or stuck: the others wait while it answers", i));
    // Who is told to stop waits for nobody's step.
    while (leaving[i].valid() && !watcher_.stop()
           && members_[i].call<Status>("status", google::protobuf::Empty{}, sign_of_life).get())
      left = leaving[i].get(sign_of_life);
    if (leaving[i].valid()) // it may have left since
      left = leaving[i].get(gpuactors::Duration::zero());
    alive.push_back(left.has_value());
  }
  return alive;
}

std::string Group::now() const {
  return epochs_ < spec_.epochs ? fmt::format("in epoch {}", epochs_ + 1) : "after the last epoch";
}

Result<void> Group::lose(const gpuactors::Error& error, bool while_summing) {
  const auto lives = leave();
  std::vector<gpuactors::ActorRef> alive;
  std::string lost;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (lives[i]) {
      alive.push_back(members_[i]);
      continue;
    }
    lost += (lost.empty() ? "" : ", ") + std::to_string(i);
    // One that does not answer is ended, so that it cannot come back.
    static_cast<void>(cluster_.kill(members_[i], {.restart = false, .grace = 1s}));
  }
  const auto before = members_.size();
  members_ = std::move(alive);
  if (members_.size() == before && by_nccl_ && while_summing) {
    by_nccl_ = false;
    watcher_.notice(
        fmt::format("NCCL failed {} ({}); gradients are summed by messages from now on, beginning with that "
                    "epoch",
                    now(), error.message()));
    return {};
  }
  if (members_.size() == before)
    return gpuactors::fail(error);
  if (spec_.on_loss == OnLoss::stop || members_.empty())
    return gpuactors::fail(error.code(), fmt::format("worker {} of {} was lost {}, and the group stops: {}", lost,
                                                     before, now(), error.message()));
  watcher_.notice(fmt::format("worker {} of {} was lost {} ({}); {} go on{}", lost, before, now(), error.message(),
                              members_.size(), epochs_ < spec_.epochs ? " from the beginning of the epoch" : ""));
  return {};
}

bool can_sum_by_nccl(const std::vector<Status>& members) {
  std::set<std::string> devices;
  for (const auto& member : members)
    if (member.nccl_version() == 0 || member.nccl_version() != members.front().nccl_version()
        || member.device_uuid().empty() || !devices.insert(member.device_uuid()).second)
      return false;
  return members.size() > 1;
}

Result<GroupOutcome> train_group(gpuactors::Cluster& cluster, const GroupSpec& spec, const Watcher& watcher) {
  if (spec.on_loss == OnLoss::restart)
    return train_team(cluster, spec, watcher);
  return Group{cluster, spec, watcher}.train();
}

} // namespace train
