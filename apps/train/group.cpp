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
  /// The same with those that live, however many die over it.
  Result<void> join_all();
  /// Learns until all epochs are over, or it is told to stop.
  Result<void> learn();
  /// One epoch: true when it is over, false when it was given up.
  Result<bool> learn_epoch();
  /// Ends the epoch for all members. @returns which of them live.
  std::vector<bool> leave();
  /// What becomes of the group after an error, without the members that died over it. Where all live, NCCL is to blame
  /// for an error that came `while_summing`.
  Result<void> lose(const gpuactors::Error& error, bool while_summing);
  /// When something happens now, for people.
  [[nodiscard]] std::string now() const;
  void note(const std::vector<Progress>& parts);
  Result<void> save_if_due();
  /// Asks the first member, or the next one when that dies over it.
  template <class Reply>
  Result<Reply> ask_first(const char* method);

  gpuactors::Cluster& cluster_;
  const GroupSpec& spec_;
  const Watcher& watcher_;
  std::optional<gpuactors::GroupId> places_;
  std::vector<gpuactors::ActorRef> members_;
  bool by_nccl_ = false;
  bool joined_ = false;
  std::uint64_t generation_ = 0;
  std::uint64_t epochs_ = 0;
  /// Of the last batch.
  std::optional<double> loss_;
  Outcome outcome_;
};

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
    watcher_.notice("slopes are summed by NCCL");
  epochs_ = states.front().epochs();
  if (states.front().has_last_loss())
    loss_ = states.front().last_loss();
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
  joined_ = result.has_value();
  return result;
}

std::vector<bool> Group::leave() {
  joined_ = false;
  std::vector<gpuactors::Future<google::protobuf::Empty>> leaving;
  for (const auto& member : members_)
    leaving.push_back(member.call("leave", google::protobuf::Empty{}, sign_of_life));
  std::vector<bool> alive;
  for (auto& left : leaving)
    alive.push_back(left.get().has_value());
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
    watcher_.notice(fmt::format("NCCL failed {} ({}); slopes are summed by messages from now on, beginning with that "
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

void Group::note(const std::vector<Progress>& parts) {
  const auto steps = parts.front().steps();
  const auto count = static_cast<std::size_t>(parts.front().losses_size());
  const auto first = static_cast<std::size_t>(steps - count - outcome_.first_step);
  outcome_.losses.resize(first);
  outcome_.losses.resize(first + count, 0.0);
  outcome_.epochs.resize(first);
  outcome_.epochs.resize(first + count, parts.front().epochs());
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
  if (!outcome_.losses.empty())
    loss_ = outcome_.losses.back();
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
    if (watcher_.stop()) {
      outcome_.stopped = true;
      leave();
      return false;
    }
    for (const auto index : gpuactors::wait(learning, 1, look)) {
      auto part = learning[index].get();
      if (!part) {
        GPUACTORS_TRY(lose(part.error(), true));
        return false;
      }
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

Result<void> Group::join_all() {
  while (!joined_)
    if (const auto made = join(); !made)
      GPUACTORS_TRY(lose(made.error(), true));
  return {};
}

Result<void> Group::save_if_due() {
  const auto every = std::max<std::uint64_t>(spec_.plan.checkpoint_epochs(), 1);
  const bool due = outcome_.stopped || epochs_ == spec_.epochs || epochs_ % every == 0;
  if (!due || (spec_.plan.checkpoint().empty() && !outcome_.stopped))
    return {};
  // Nothing is summed any more.
  by_nccl_ = by_nccl_ && !outcome_.stopped;
  Path path;
  path.set_path(spec_.plan.checkpoint());
  if (loss_)
    path.set_loss(*loss_);
  for (;;) {
    // Those who left an epoch go back to its beginning.
    GPUACTORS_TRY(join_all());
    if (path.path().empty())
      return {};
    const auto saved = members_.front().call<Status>("save", path, gpuactors::Duration::max()).get();
    if (saved)
      return {};
    GPUACTORS_TRY(lose(saved.error(), false));
  }
}

template <class Reply>
Result<Reply> Group::ask_first(const char* method) {
  for (;;) {
    auto reply = members_.front().call<Reply>(method, google::protobuf::Empty{}, gpuactors::Duration::max()).get();
    if (reply)
      return reply;
    GPUACTORS_TRY(lose(reply.error(), false));
  }
}

Result<void> Group::learn() {
  const auto begin = Clock::now();
  while (epochs_ < spec_.epochs && !outcome_.stopped) {
    GPUACTORS_TRY(join_all());
    GPUACTORS_LET(over, learn_epoch());
    outcome_.stopped = outcome_.stopped || (over && watcher_.stop());
    outcome_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (over || outcome_.stopped)
      GPUACTORS_TRY(save_if_due());
  }
  GPUACTORS_LET(quality, ask_first<Evaluation>("evaluate"));
  GPUACTORS_LET(status, ask_first<Status>("status"));
  outcome_.quality = quality;
  outcome_.status = status;
  return {};
}

Result<GroupOutcome> Group::train() {
  GPUACTORS_TRY(start());
  if (const auto learnt = learn(); !learnt) {
    watcher_.fails(outcome_);
    return gpuactors::fail(learnt.error());
  }
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
