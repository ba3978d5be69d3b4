#include <gpuactors/broker/core/recorded_ledger.hpp>

#include <ostream>

namespace gpuactors {

namespace {

// A call that breaks a rule has no effect except that time passes, and a scenario may be unable to express it.
bool is_against_rules(const Event& answer) {
  return answer.kind == Event::Kind::rejected && answer.code != Errc::no_capacity && answer.code != Errc::queue_full;
}

} // namespace

RecordedLedger::~RecordedLedger() {
  finish();
}

void RecordedLedger::record(std::shared_ptr<std::ostream> out) {
  out_ = std::move(out);
  writer_ = std::make_unique<ScenarioWriter>(*out_);
}

bool RecordedLedger::recording_failed() const noexcept {
  return out_ != nullptr && out_->fail();
}

void RecordedLedger::finish() {
  if (writer_ != nullptr)
    writer_->finish();
  writer_.reset();
}

// -- recording -------------------------------------------------------------------------------------

template <class Write>
Ledger::Events RecordedLedger::recorded(Events events, Write write) {
  if (writer_ == nullptr)
    return events;
  write(*writer_);
  // What is kept of a lost lease is released under its name.
  auto over = events;
  std::erase_if(over, [this](const Event& event) { return event.lease && find_remains(event.lease->id) != nullptr; });
  writer_->forget(over);
  return events;
}

template <class Write>
Result<Ledger::Events> RecordedLedger::recorded(Result<Events> events, Write write) {
  if (!events)
    return events;
  return recorded(std::move(*events), write);
}

Result<Ledger::Events> RecordedLedger::add_node(NodeSpec spec, TimePoint now) {
  if (writer_ == nullptr)
    return Ledger::add_node(std::move(spec), now);
  const auto asked = spec;
  return recorded(Ledger::add_node(std::move(spec), now), [&](ScenarioWriter& to) { to.add_node(asked, now); });
}

Result<Ledger::Events> RecordedLedger::fail_device(std::string_view node, int index, TimePoint now, Holders holders) {
  return recorded(Ledger::fail_device(node, index, now, holders),
                  [&](ScenarioWriter& to) { to.fail_device(node, index, holders, now); });
}

Result<Ledger::Events> RecordedLedger::drain_node(std::string_view name, TimePoint now) {
  return recorded(Ledger::drain_node(name, now), [&](ScenarioWriter& to) { to.drain_node(name, now); });
}

Result<Ledger::Events> RecordedLedger::undrain_node(std::string_view name, TimePoint now) {
  return recorded(Ledger::undrain_node(name, now), [&](ScenarioWriter& to) { to.undrain_node(name, now); });
}

Result<Ledger::Events> RecordedLedger::set_types(std::string_view name, std::optional<std::vector<std::string>> types,
                                                 TimePoint now) {
  if (writer_ == nullptr)
    return Ledger::set_types(name, std::move(types), now);
  const auto asked = types;
  return recorded(Ledger::set_types(name, std::move(types), now),
                  [&](ScenarioWriter& to) { to.set_types(name, asked, now); });
}

Result<Ledger::Events> RecordedLedger::set_quota(const std::string& owner, std::optional<Share> limit, TimePoint now) {
  return recorded(Ledger::set_quota(owner, limit, now), [&](ScenarioWriter& to) { to.set_quota(owner, limit, now); });
}

Ledger::Events RecordedLedger::submit(RequestId id, ResourceRequest request, TimePoint now) {
  if (writer_ == nullptr)
    return Ledger::submit(id, std::move(request), now);
  const auto* lease = find_lease(request.parent);
  const auto parent = lease != nullptr ? lease->request : RequestId{};
  const std::string type{type_name(request.type)};
  auto events = Ledger::submit(id, request, now);
  if (is_against_rules(events.front()))
    return recorded(std::move(events), [&](ScenarioWriter& to) { to.advance(now); });
  return recorded(std::move(events), [&](ScenarioWriter& to) { to.submit(id, request, type, parent, now); });
}

Ledger::Events RecordedLedger::submit_group(GroupId id, GroupRequest request, TimePoint now) {
  if (writer_ == nullptr)
    return Ledger::submit_group(id, std::move(request), now);
  auto events = Ledger::submit_group(id, request, now);
  if (is_against_rules(events.front()))
    return recorded(std::move(events), [&](ScenarioWriter& to) { to.advance(now); });
  return recorded(std::move(events), [&](ScenarioWriter& to) { to.submit_group(id, request, now); });
}

Result<Ledger::Events> RecordedLedger::release_group(GroupId id, TimePoint now) {
  return recorded(Ledger::release_group(id, now), [&](ScenarioWriter& to) { to.release_group(id, now); });
}

Result<Ledger::Events> RecordedLedger::release(LeaseId id, std::uint64_t epoch, TimePoint now) {
  const auto* lease = find_lease(id);
  if (lease == nullptr)
    lease = find_remains(id);
  const auto request = lease != nullptr ? lease->request : RequestId{};
  return recorded(Ledger::release(id, epoch, now), [&](ScenarioWriter& to) { to.release(request, now); });
}

Result<Ledger::Events> RecordedLedger::cancel(RequestId id, TimePoint now) {
  return recorded(Ledger::cancel(id, now), [&](ScenarioWriter& to) { to.release(id, now); });
}

Ledger::Events RecordedLedger::advance(TimePoint now) {
  return recorded(Ledger::advance(now), [&](ScenarioWriter& to) { to.advance(now); });
}

} // namespace gpuactors
