#include <gpuactors/broker/core/broker_role.hpp>
#include <gpuactors/broker/core/state_feed.hpp>

#include <cstdlib>
#include <sstream>
#include <tuple>
#include <utility>

namespace gpuactors {

namespace {

/// The key in `StateSection::ids` of the nodes that the active broker had, by name, one in each line.
constexpr const char* nodes_key = "nodes";

void put(DesiredState& store, const char* key, std::string value) {
  store.put(StateSection::ids, std::string{key}, std::move(value));
}

} // namespace

Result<BrokerRole> role_in(const DesiredState& store) {
  GPUACTORS_LET(entries, store.load(StateSection::ids));
  BrokerRole role;
  for (auto& entry : entries) {
    const auto* key = std::get_if<std::string>(&entry.key);
    if (key == nullptr)
      continue;
    if (*key == term_key)
      role.term = std::strtoull(entry.value.c_str(), nullptr, 10);
    else if (*key == lineage_key)
      role.lineage = std::move(entry.value);
    else if (*key == serves_key)
      role.served = true;
    else if (*key == copied_key)
      role.copied = true;
    else if (*key == standby_key)
      role.other = std::move(entry.value);
    else if (*key == nodes_key) {
      std::istringstream in{entry.value};
      for (std::string line; std::getline(in, line);)
        role.nodes.insert(line);
    }
  }
  return role;
}

BrokerStart start_of(const BrokerRole& role, bool has_other) {
  if (!has_other)
    return BrokerStart::serve;
  // One that has stood by when it ended goes on with that.
  return role.served ? BrokerStart::ask : BrokerStart::stand_by;
}

v1::FollowState start_question(const BrokerRole& role) {
  v1::FollowState question;
  question.set_term(role.term);
  return question;
}

Result<void> begin_to_stand_by(DesiredState& store, const std::string& other) {
  store.erase(StateSection::ids, std::string{serves_key});
  put(store, standby_key, other);
  return store.commit();
}

Result<void> forget_standby(DesiredState& store) {
  store.erase(StateSection::ids, std::string{standby_key});
  return store.commit();
}

Result<void> keep_nodes(DesiredState& store, const std::set<std::string>& nodes) {
  std::string lines;
  for (const auto& node : nodes)
    lines += node + '\n';
  put(store, nodes_key, std::move(lines));
  return store.commit();
}

Result<v1::TakenOver> begin_to_serve(DesiredState& store, bool takes_over, std::int64_t since_unix_ns,
                                     std::string_view new_lineage) {
  GPUACTORS_LET(role, role_in(store));
  v1::TakenOver claim;
  claim.set_since_unix_ns(since_unix_ns);
  claim.set_term(role.term + (takes_over && role.copied ? 1 : 0));
  put(store, serves_key, "1");
  put(store, term_key, std::to_string(claim.term()));
  if (!role.has_state())
    put(store, lineage_key, std::string{new_lineage});
  store.erase(StateSection::ids, std::string{copied_key});
  GPUACTORS_TRY(store.commit());
  return claim;
}

bool gives_way(const v1::TakenOver& own, const v1::TakenOver& other) {
  return other.term() > own.term() || (other.term() == own.term() && other.since_unix_ns() < own.since_unix_ns());
}

bool goes_first(const v1::FollowState& own, const v1::FollowState& other) {
  return std::tuple{own.has_copy(), own.term(), own.address()}
         > std::tuple{other.has_copy(), other.term(), other.address()};
}

} // namespace gpuactors
