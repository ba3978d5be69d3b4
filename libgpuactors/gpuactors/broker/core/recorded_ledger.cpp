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

Result<Ledger::Events> RecordedLedger::noted(Result<Events> events) {
  if (writer_ != nullptr && events)
    writer_->forget(*events);
  return events;
}

Result<Ledger::Events> RecordedLedger::add_node(NodeSpec spec, TimePoint now) {
  if (writer_ == nullptr)
    return Ledger::add_node(std::move(spec), now);
  const auto asked = spec;
  auto events = Ledger::add_node(std::move(spec), now);
  if (events)
    writer_->add_node(asked, now);
  return noted(std::move(events));
}

Result<Ledger::Events> RecordedLedger::fail_device(std::string_view node, int index, TimePoint now, Holders holders) {
  auto events = Ledger::fail_device(node, index, now, holders);
  if (writer_ == nullptr || !events)
    return events;
  writer_->fail_device(std::string{node}, index, holders, now);
  // What is kept of a lost lease is released under its name.
  auto over = *events;
  std::erase_if(over, [this](const Event& event) { return event.lease && find_remains(event.lease->id) != nullptr; });
  writer_->forget(over);
  return events;
}

Result<Ledger::Events> RecordedLedger::drain_node(std::string_view name, TimePoint now) {
  auto events = Ledger::drain_node(name, now);
  if (writer_ != nullptr && events)
    writer_->drain_node(std::string{name}, now);
  return noted(std::move(events));
}

Result<Ledger::Events> RecordedLedger::undrain_node(std::string_view name, TimePoint now) {
  auto events = Ledger::undrain_node(name, now);
  if (writer_ != nullptr && events)
    writer_->undrain_node(std::string{name}, now);
  return noted(std::move(events));
}

Result<Ledger::Events> RecordedLedger::set_types(std::string_view name, std::optional<std::vector<std::string>> types,
                                                 TimePoint now) {
  if (writer_ == nullptr)
    return Ledger::set_types(name, std::move(types), now);
  auto events = Ledger::set_types(name, types, now);
  if (events)
    writer_->set_types(std::string{name}, types, now);
  return noted(std::move(events));
}

Ledger::Events RecordedLedger::submit_group(GroupId id, GroupRequest request, TimePoint now) {
  if (writer_ == nullptr)
    return Ledger::submit_group(id, std::move(request), now);
  const auto asked = request;
  auto events = Ledger::submit_group(id, std::move(request), now);
  if (is_against_rules(events.front()))
    writer_->advance(now);
  else
    writer_->submit_group(id, asked, now);
  writer_->forget(events);
  return events;
}

Result<Ledger::Events> RecordedLedger::release_group(GroupId id, TimePoint now) {
  auto events = Ledger::release_group(id, now);
  if (writer_ != nullptr && events)
    writer_->release_group(id, now);
  return noted(std::move(events));
}

Ledger::Events RecordedLedger::submit(RequestId id, ResourceRequest request, TimePoint now) {
  if (writer_ == nullptr)
    return Ledger::submit(id, std::move(request), now);
  const auto asked = request;
  const auto* parent = find_lease(request.parent);
  const auto parent_request = parent != nullptr ? parent->request : RequestId{};
  const std::string type{type_name(request.type)};
  auto events = Ledger::submit(id, std::move(request), now);
  if (is_against_rules(events.front()))
    writer_->advance(now);
  else
    writer_->submit(id, asked, type, parent_request, now);
  writer_->forget(events);
  return events;
}

Result<Ledger::Events> RecordedLedger::release(LeaseId id, std::uint64_t epoch, TimePoint now) {
  const auto* lease = find_lease(id);
  if (lease == nullptr)
    lease = find_remains(id);
  const auto request = lease != nullptr ? lease->request : RequestId{};
  auto events = Ledger::release(id, epoch, now);
  if (writer_ != nullptr && events)
    writer_->release(request, now);
  return noted(std::move(events));
}

Result<Ledger::Events> RecordedLedger::cancel(RequestId id, TimePoint now) {
  auto events = Ledger::cancel(id, now);
  if (writer_ != nullptr && events)
    writer_->release(id, now);
  return noted(std::move(events));
}

Result<Ledger::Events> RecordedLedger::set_quota(const std::string& owner, std::optional<Share> limit, TimePoint now) {
  auto events = Ledger::set_quota(owner, limit, now);
  if (writer_ != nullptr && events)
    writer_->set_quota(owner, limit, now);
  return noted(std::move(events));
}

Ledger::Events RecordedLedger::advance(TimePoint now) {
  auto events = Ledger::advance(now);
  if (writer_ != nullptr) {
    writer_->advance(now);
    writer_->forget(events);
  }
  return events;
}

} // namespace gpuactors
