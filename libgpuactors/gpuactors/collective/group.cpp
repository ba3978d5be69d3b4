#include <gpuactors/base/random_id.hpp>
#include <gpuactors/collective/collective.hpp>
#include <gpuactors/collective/detail/member.hpp>
#include <gpuactors/collective/group.hpp>

#include <fmt/format.h>

#include <map>
#include <string>

namespace gpuactors {

namespace {

std::string name_of_actor(const ActorRef& member) {
  return detail::name_of(member.to_message());
}

Result<void> check_members(const std::vector<ActorRef>& members) {
  if (members.empty())
    return fail(Errc::invalid_argument, "a group has at least one member");
  std::map<ActorId, std::size_t> ranks;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    if (!members[rank])
      return fail(Errc::invalid_argument, fmt::format("the reference for rank {} is empty", rank));
    const auto [known, added] = ranks.emplace(members[rank].id(), rank);
    if (!added)
      return fail(Errc::invalid_argument, fmt::format("{} would have the ranks {} and {}: a member has one",
                                                      name_of_actor(members[rank]), known->second, rank));
  }
  return {};
}

/// Waits for all, and returns the first error; before others that of a member which is dead itself.
Result<void> await_all(std::vector<Future<v1::CollectiveAnswer>> answers, const std::vector<ActorRef>& members) {
  Result<void> result;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const auto answer = answers[rank].get();
    if (answer || (!result && (is_loss(result.error().code()) || !is_loss(answer.error().code()))))
      continue;
    const auto& error = answer.error();
    // Nothing else is not found: neighbours that are gone are `unavailable`.
    const auto* hint =
        error.code() == Errc::not_found ? "; the type of a member derives from gpuactors::WithPeers" : "";
    result = fail(error.code(), fmt::format("rank {} of {} ({}) did not join: {}{}", rank, members.size(),
                                            name_of_actor(members[rank]), error.message(), hint));
  }
  return result;
}

} // namespace

void CollectiveGroup::abort(std::string_view reason) const {
  v1::CollectiveCall call;
  call.set_generation(generation_);
  call.set_abort(std::string{reason});
  for (const auto& member : members_)
    static_cast<void>(member.call(collective_method, call));
}

Result<CollectiveGroup> form_collective(std::vector<ActorRef> members, Duration timeout) {
  GPUACTORS_TRY(check_members(members));
  CollectiveGroup group{random_id(), members};
  v1::CollectiveCall call;
  call.set_generation(group.generation());
  for (const auto& member : members)
    *call.mutable_join()->add_members() = member.to_message();
  std::vector<Future<v1::CollectiveAnswer>> joining;
  joining.reserve(members.size());
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    call.mutable_join()->set_rank(rank);
    joining.push_back(members[rank].call(collective_method, call, timeout));
  }
  auto formed = await_all(std::move(joining), members);
  if (formed) {
    call.set_start(true);
    std::vector<Future<v1::CollectiveAnswer>> starting;
    starting.reserve(members.size());
    for (const auto& member : members)
      starting.push_back(member.call(collective_method, call, timeout));
    formed = await_all(std::move(starting), members);
  }
  if (!formed) {
    group.abort(formed.error().message());
    return fail(formed.error());
  }
  return group;
}

} // namespace gpuactors
