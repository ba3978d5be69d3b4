// Finding actors, and keeping each index in step with the fields that it follows from.
#include <gpuactors/broker/core/actor_table.hpp>

#include <cassert>

namespace gpuactors {

namespace {

template <class Index, class Key>
ActorRecord* look_up(const Index& index, const Key& key) {
  const auto found = index.find(key);
  return found == index.end() ? nullptr : found->second;
}

/// Removes what the key leads to, unless that is another record by now.
template <class Index, class Key>
void erase(Index& index, const Key& key, const ActorRecord& record) {
  if (const auto found = index.find(key); found != index.end() && found->second == &record)
    index.erase(found);
}

FullName name_of(const ActorRecord& record) {
  return {record.spec.name_space(), record.spec.name()};
}

ClientRequest request_of(const ActorRecord& record) {
  return {record.client, record.client_request};
}

} // namespace

ActorRecord& ActorTable::add(ActorRecord record) {
  assert(!record.lease && !record.next);
  const auto id = record.id;
  auto& kept = records_.emplace(id, std::move(record)).first->second;
  if (!kept.spec.name().empty())
    names_[name_of(kept)] = &kept;
  spawns_[request_of(kept)] = &kept;
  return kept;
}

ActorTable::Removed ActorTable::remove(ActorId id) {
  auto removed = records_.extract(id);
  if (removed.empty())
    return removed;
  const auto& record = removed.mapped();
  erase(names_, name_of(record), record);
  erase(spawns_, request_of(record), record);
  erase(waiting_, record.waiting_for, record);
  if (record.lease)
    erase(holders_, LeaseId{record.lease->id()}, record);
  if (record.next)
    erase(moves_, record.next->id, record);
  return removed;
}

ActorRecord* ActorTable::find(ActorId id) {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : &found->second;
}

ActorRecord* ActorTable::find(const FullName& name) const {
  return look_up(names_, name);
}

ActorRecord* ActorTable::spawned_for(const ClientRequest& request) const {
  return look_up(spawns_, request);
}

ActorRecord* ActorTable::waiting_with(RequestId request) const {
  return look_up(waiting_, request);
}

ActorRecord* ActorTable::holder_of(LeaseId lease) const {
  return look_up(holders_, lease);
}

ActorRecord* ActorTable::moving_to(LeaseId lease) const {
  return look_up(moves_, lease);
}

std::vector<std::string> ActorTable::names_in(const std::string& name_space, std::size_t most) const {
  std::vector<std::string> names;
  for (auto it = names_.lower_bound({name_space, {}});
       it != names_.end() && it->first.first == name_space && names.size() < most; ++it)
    names.push_back(it->first.second);
  return names;
}

void ActorTable::wait(ActorRecord& record, RequestId request) {
  record.state = ActorState::waiting;
  record.waiting_for = request;
  waiting_[request] = &record;
}

void ActorTable::stop_waiting(ActorRecord& record) {
  erase(waiting_, record.waiting_for, record);
}

void ActorTable::hold(ActorRecord& record, v1::Lease lease) {
  let_go(record);
  holders_[LeaseId{lease.id()}] = &record;
  record.lease = std::move(lease);
}

void ActorTable::let_go(ActorRecord& record) {
  if (record.lease)
    erase(holders_, LeaseId{record.lease->id()}, record);
  record.lease.reset();
}

void ActorTable::reserve(ActorRecord& record, Lease next) {
  assert(!record.next);
  moves_[next.id] = &record;
  record.next = std::move(next);
}

std::optional<Lease> ActorTable::take_next(ActorRecord& record) {
  auto next = std::exchange(record.next, std::nullopt);
  if (next)
    erase(moves_, next->id, record);
  return next;
}

} // namespace gpuactors
