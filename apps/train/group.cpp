#include "group.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

namespace train {

using namespace std::chrono_literals;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// How often results are looked at, and how long a member may take to say that it lives.
constexpr auto look = 100ms;
constexpr auto sign_of_life = 15s;

/// Tells the groups of all programs of a cluster apart.
std::string group_name() {
  static std::atomic<unsigned> count{0};
  return fmt::format("train-{:x}-{:x}-{}", ::getpid(),
                     std::chrono::system_clock::now().time_since_epoch().count() & 0xFFFFFFFF, count++);
}

/// The members of one training, from their start to their end.
class Group {
public:
  Group(gpuactors::Cluster& cluster, const GroupSpec& spec, const Watcher& watcher)
    : cluster_(cluster), spec_(spec), watcher_(watcher) {
    // nop
  }

  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  ~Group() {
    for (const auto& member : members_)
      static_cast<void>(cluster_.kill(member));
    if (places_)
      static_cast<void>(cluster_.remove_group(*places_));
  }

  Result<GroupOutcome> train();

private:
  /// Takes the places of all members together: two groups with half of theirs each would wait for each other.
  Result<void> take_places();
  Result<void> start();
  Result<void> join();
  /// One epoch: true when it is over, false when the group has shrunk and it has to be learnt again.
  Result<bool> learn_epoch();
  Result<bool> lose(const gpuactors::Error& error);
  void note(const std::vector<Progress>& parts);
  Result<void> save_if_due(bool now);

  gpuactors::Cluster& cluster_;
  const GroupSpec& spec_;
  const Watcher& watcher_;
  std::optional<gpuactors::GroupId> places_;
  std::vector<gpuactors::ActorRef> members_;
  bool by_nccl_ = false;
  std::uint64_t generation_ = 0;
  std::uint64_t epochs_ = 0;
  Outcome outcome_;
};

Result<void> Group::take_places() {
  const std::vector<gpuactors::Options> bundles(spec_.workers, spec_.options);
  for (bool said = false;; said = true) {
    auto places = cluster_.create_group(bundles, {.queue_timeout = 1s});
    if (places) {
      places_ = places->id;
      return {};
    }
    if (places.error().code() != Errc::no_capacity)
      return gpuactors::fail(places.error());
    if (watcher_.stop())
      return gpuactors::fail(Errc::cancelled, "it was stopped while it waited for devices");
    if (!said)
      watcher_.notice(fmt::format("waiting for devices for {} workers", spec_.workers));
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
    watcher_.notice("slopes are summed by NCCL");
  epochs_ = states.front().epochs();
  outcome_.begin_at(states.front());
  return watcher_.begins(states.front());
}

Result<void> Group::join() {
  Places places;
  places.set_generation(++generation_);
  places.set_epochs(epochs_);
  for (const auto& member : members_)
    places.add_members(member.name());
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
    const auto status = joined.get();
    if (!status && result)
      result = gpuactors::fail(status.error());
    else if (status)
      outcome_.steps_per_epoch = status->steps_per_epoch();
  }
  return result;
}

Result<bool> Group::lose(const gpuactors::Error& error) {
  std::vector<gpuactors::Future<google::protobuf::Empty>> leaving;
  for (const auto& member : members_)
    leaving.push_back(member.call("leave", google::protobuf::Empty{}, sign_of_life));
  std::vector<gpuactors::ActorRef> alive;
  std::string lost;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (leaving[i].get()) {
      alive.push_back(members_[i]);
      continue;
    }
    lost += (lost.empty() ? "" : ", ") + std::to_string(i);
    // One that does not answer is ended, so that it cannot come back.
    static_cast<void>(cluster_.kill(members_[i], {.restart = false, .grace = 1s}));
  }
  const auto before = members_.size();
  members_ = std::move(alive);
  if (members_.size() == before && by_nccl_) {
    by_nccl_ = false;
    watcher_.notice(fmt::format("NCCL failed in epoch {} ({}); slopes are summed by messages from now on, beginning "
                                "with that epoch",
                                epochs_ + 1, error.message()));
    return false;
  }
  if (members_.size() == before)
    return gpuactors::fail(error);
  if (spec_.on_loss == OnLoss::stop || members_.empty())
    return gpuactors::fail(error.code(), fmt::format("worker {} of {} was lost in epoch {}, and the group stops: {}",
                                                     lost, before, epochs_ + 1, error.message()));
  watcher_.notice(fmt::format("worker {} of {} was lost in epoch {} ({}); {} go on from the beginning of the epoch",
                              lost, before, epochs_ + 1, error.message(), members_.size()));
  return false;
}

void Group::note(const std::vector<Progress>& parts) {
  const auto steps = parts.front().steps();
  const auto count = static_cast<std::size_t>(parts.front().losses_size());
  const auto first = static_cast<std::size_t>(steps - count - outcome_.first_step);
  outcome_.losses.resize(first);
  outcome_.losses.resize(first + count, 0.0);
  Progress whole;
  whole.set_epochs(parts.front().epochs());
  whole.set_steps(steps);
  std::uint64_t rows = 0;
  for (const auto& part : parts) {
    for (std::size_t i = 0; i < count; ++i)
      outcome_.losses[first + i] += part.losses(static_cast<int>(i));
    rows += part.rows();
  }
  // A loss that is no number any more was told all the same.
  for (auto at = first; at < outcome_.losses.size(); ++at)
    if (std::isnan(outcome_.losses[at]))
      outcome_.losses[at] = std::numeric_limits<double>::infinity();
  whole.set_rows(rows);
  whole.mutable_losses()->Add(outcome_.losses.begin() + static_cast<std::ptrdiff_t>(first), outcome_.losses.end());
  outcome_.rows += rows;
  watcher_.progress(whole, outcome_);
}

Result<bool> Group::learn_epoch() {
  EpochRequest request;
  request.set_generation(generation_);
  std::vector<gpuactors::Future<Progress>> learning;
  for (const auto& member : members_)
    learning.push_back(member.call<Progress>("epoch", request, gpuactors::Duration::max()));
  std::vector<std::optional<Progress>> parts(learning.size());
  for (std::size_t done = 0; done < learning.size();) {
    for (const auto index : gpuactors::wait(learning, 1, look)) {
      auto part = learning[index].get();
      if (!part)
        return lose(part.error());
      parts[index] = std::move(*part);
      ++done;
    }
  }
  std::vector<Progress> all;
  for (auto& part : parts)
    all.push_back(std::move(*part));
  epochs_ = all.front().epochs();
  note(all);
  return true;
}

Result<void> Group::save_if_due(bool now) {
  const auto every = std::max<std::uint64_t>(spec_.plan.checkpoint_epochs(), 1);
  if (spec_.plan.checkpoint().empty() || (!now && epochs_ % every != 0))
    return {};
  Path path;
  path.set_path(spec_.plan.checkpoint());
  GPUACTORS_TRY(members_.front().call<Status>("save", path, gpuactors::Duration::max()).get());
  return {};
}

Result<GroupOutcome> Group::train() {
  GPUACTORS_TRY(start());
  const auto begin = Clock::now();
  bool joined = false;
  while (epochs_ < spec_.epochs && !outcome_.stopped) {
    if (!joined) {
      if (const auto made = join(); !made) {
        GPUACTORS_TRY(lose(made.error()));
        continue;
      }
      joined = true;
    }
    GPUACTORS_LET(over, learn_epoch());
    joined = over;
    if (!over)
      continue;
    outcome_.stopped = watcher_.stop();
    // By the next one, if the first one dies over it.
    for (auto saved = save_if_due(outcome_.stopped || epochs_ == spec_.epochs); !saved; saved = save_if_due(true)) {
      GPUACTORS_TRY(lose(saved.error()));
      joined = false;
    }
  }
  outcome_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  GPUACTORS_LET(
      quality,
      members_.front().call<Evaluation>("evaluate", google::protobuf::Empty{}, gpuactors::Duration::max()).get());
  GPUACTORS_LET(status, members_.front().call<Status>("status").get());
  outcome_.quality = quality;
  outcome_.status = status;
  return GroupOutcome{std::move(outcome_), members_.size()};
}

} // namespace

bool can_sum_by_nccl(const std::vector<Status>& members) {
  std::set<std::string> devices;
  for (const auto& member : members)
    if (member.nccl_version() == 0 || member.nccl_version() != members.front().nccl_version()
        || member.device_uuid().empty() || !devices.insert(member.device_uuid()).second)
      return false;
  return members.size() > 1;
}

Result<GroupOutcome> train_group(gpuactors::Cluster& cluster, const GroupSpec& spec, const Watcher& watcher) {
  return Group{cluster, spec, watcher}.train();
}

} // namespace train
