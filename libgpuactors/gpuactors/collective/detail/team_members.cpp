// TeamMembers: starts, ends and looks after the actors of a team.
#include <gpuactors/collective/collective.hpp>
#include <gpuactors/collective/detail/member.hpp>
#include <gpuactors/collective/detail/team_members.hpp>

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace gpuactors::detail {

TeamMembers::TeamMembers(Cluster& cluster, std::string type, std::vector<PayloadMember> members, TeamOptions options,
                         std::shared_ptr<TeamBell> bell)
  : cluster_(cluster), type_(std::move(type)), members_(std::move(members)), options_(std::move(options)),
    bell_(std::move(bell)), actors_(members_.size()) {
  // nop
}

std::vector<ActorRef> TeamMembers::refs() const {
  const std::lock_guard lock{mutex_};
  std::vector<ActorRef> refs;
  refs.reserve(actors_.size());
  for (const auto& actor : actors_)
    refs.push_back(actor ? *actor : ActorRef{});
  return refs;
}

std::string TeamMembers::name_of_rank(std::size_t rank) const {
  const auto& actor = actors_[rank];
  if (actor)
    return name_of(actor->to_message());
  return members_[rank].options.name.empty() ? type_ : members_[rank].options.name;
}

// -- places ---------------------------------------------------------------------------------------

Result<void> TeamMembers::check() const {
  if (members_.empty())
    return gpuactors::fail(Errc::invalid_argument, "a team has at least one member");
  if (options_.max_failures < -1)
    return gpuactors::fail(
        Errc::invalid_argument,
        fmt::format("max_failures is {}: a number from 0 on is expected, or -1 for always", options_.max_failures));
  if (options_.answer_within <= Duration::zero())
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("answer_within is {} s: a time above 0 is expected, such as 30 s",
                                       to_seconds(options_.answer_within)));
  if (options_.placement.detached || options_.placement.shrinks)
    return gpuactors::fail(Errc::invalid_argument, "the places of a team are neither detached nor do they shrink: they "
                                                   "end with the team, and not before");
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    const auto& options = members_[rank].options;
    const auto refuse = [&](std::string_view field, std::string_view why) {
      return gpuactors::fail(Errc::invalid_argument, fmt::format("rank {} has {}: {}", rank, field, why));
    };
    if (options.group || options.bundle != -1)
      return refuse("a group", "the team reserves a place for each member");
    if (options.max_restarts != 0)
      return refuse("max_restarts", "the team replaces its members (max_failures)");
    if (options.node_is_soft)
      return refuse("node_is_soft", "a place is on the node that is named, or on any");
    if (options.detached || options.get_if_exists)
      return refuse(options.detached ? "detached" : "get_if_exists", "members begin and end with their team");
  }
  return {};
}

Result<void> TeamMembers::reserve() {
  if (places_)
    return {};
  GPUACTORS_TRY(check());
  std::vector<Options> bundles;
  for (const auto& member : members_) {
    const auto& options = member.options;
    Options bundle;
    bundle.gpus = options.gpus;
    bundle.memory_bytes = options.memory_bytes;
    bundle.cpus = options.cpus;
    bundle.accelerator_type = options.accelerator_type;
    bundle.resources = options.resources;
    bundle.host_memory_bytes = options.host_memory_bytes;
    bundle.node = options.node;
    bundle.labels = options.labels;
    bundles.push_back(std::move(bundle));
  }
  std::vector<Future<PlacementGroup>> reserving;
  reserving.push_back(cluster_.create_group_async(bundles, options_.placement));
  bell_->await(reserving);
  GPUACTORS_LET(places, reserving.front().get());
  places_ = cluster_.own(std::move(places));
  return {};
}

// -- actors ---------------------------------------------------------------------------------------

std::vector<MemberEnd> TeamMembers::start() {
  std::vector<std::size_t> ranks;
  std::vector<Future<ActorRef>> starting;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    if (actors_[rank])
      continue;
    auto options = members_[rank].options;
    options.group = places_->id;
    options.bundle = static_cast<int>(rank);
    ranks.push_back(rank);
    starting.push_back(cluster_.spawn_payload(type_, members_[rank].config, options));
  }
  bell_->await(starting);
  std::vector<MemberEnd> ends(size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto started = starting[i].get();
    if (!started) {
      ends[ranks[i]].error = started.error();
      continue;
    }
    const std::lock_guard lock{mutex_};
    actors_[ranks[i]] = cluster_.own(std::move(*started));
  }
  for (std::size_t rank = 0; rank < size(); ++rank)
    ends[rank].name = name_of_rank(rank);
  return ends;
}

void TeamMembers::end(const std::vector<bool>& ended) {
  std::vector<Future<void>> ending;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    if (!ended[rank] || !actors_[rank])
      continue;
    const std::lock_guard lock{mutex_};
    // Waited for: its name and its place are free then. An error means that it is gone, or stuck where nothing can be
    // ended; then the next one waits for the place.
    ending.push_back(cluster_.kill_async(actors_[rank].release()));
    actors_[rank] = {};
  }
  bell_->await(ending);
}

// -- the group ------------------------------------------------------------------------------------

Result<void> TeamMembers::join() {
  GPUACTORS_LET(group, form_collective(refs(), options_.answer_within));
  group_ = std::move(group);
  return {};
}

void TeamMembers::part(const std::string& reason) const {
  if (group_)
    group_->abort(reason);
}

std::vector<MemberEnd> TeamMembers::ask() const {
  // The end of no group: has no effect, and is answered beside whatever a member does.
  v1::CollectiveCall question;
  question.set_abort("");
  std::vector<Future<v1::CollectiveAnswer>> asking;
  for (const auto& member : refs())
    asking.push_back(member.call(collective_method, question, options_.answer_within));
  bell_->await(asking);
  std::vector<MemberEnd> ends;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    const auto answer = asking[rank].get();
    // One whose type has not registered the method lives.
    const bool answers = answer || answer.error().code() == Errc::not_found;
    ends.push_back({name_of_rank(rank), answers ? std::nullopt : std::optional{answer.error()}, answers});
  }
  return ends;
}

} // namespace gpuactors::detail
