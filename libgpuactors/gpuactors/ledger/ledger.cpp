#include <gpuactors/ledger/impl.hpp>

namespace gpuactors {

Ledger::Ledger(LedgerOptions options) : impl_(std::make_unique<Impl>(options)) {
  // nop
}

Ledger::~Ledger() = default;
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;

Result<Ledger::Events> Ledger::add_node(NodeSpec spec, TimePoint now) {
  return impl_->add_node(std::move(spec), now);
}

Result<Ledger::Events> Ledger::remove_node(std::string_view name, TimePoint now) {
  return impl_->remove_node(name, now);
}

Result<Ledger::Events> Ledger::drain_node(std::string_view name, TimePoint now) {
  return impl_->drain_node(name, now);
}

Result<Ledger::Events> Ledger::undrain_node(std::string_view name, TimePoint now) {
  return impl_->undrain_node(name, now);
}

Result<void> Ledger::suspend_node(std::string_view name) {
  return impl_->suspend_node(name);
}

Result<Ledger::Events> Ledger::unsuspend_node(std::string_view name, TimePoint now) {
  return impl_->unsuspend_node(name, now);
}

Result<Ledger::Events> Ledger::set_types(std::string_view name, std::optional<std::vector<std::string>> types,
                                         TimePoint now) {
  return impl_->set_types(name, std::move(types), now);
}

Result<Ledger::Events> Ledger::fail_device(std::string_view node, int index, TimePoint now, Holders holders) {
  return impl_->fail_device(node, index, now, holders);
}

TypeId Ledger::type(std::string_view name) {
  return impl_->type(name);
}

std::string_view Ledger::type_name(TypeId type) const {
  return impl_->type_name(type);
}

Ledger::Events Ledger::submit(RequestId id, ResourceRequest request, TimePoint now) {
  return impl_->submit(id, std::move(request), now);
}

Result<Ledger::Events> Ledger::release(LeaseId id, std::uint64_t epoch, TimePoint now) {
  return impl_->release(id, epoch, now);
}

Result<Ledger::Events> Ledger::cancel(RequestId id, TimePoint now) {
  return impl_->cancel(id, now);
}

Ledger::Events Ledger::submit_group(GroupId id, GroupRequest request, TimePoint now) {
  return impl_->submit_group(id, std::move(request), now);
}

Result<Ledger::Events> Ledger::release_group(GroupId id, TimePoint now) {
  return impl_->release_group(id, now);
}

Result<Ledger::Events> Ledger::set_quota(const std::string& owner, std::optional<Share> limit, TimePoint now) {
  return impl_->set_quota(owner, limit, now);
}

void Ledger::pause() {
  impl_->pause();
}

Ledger::Events Ledger::resume(TimePoint now) {
  return impl_->resume(now);
}

Ledger::Events Ledger::expect_nodes(bool expected, TimePoint now) {
  return impl_->expect_nodes(expected, now);
}

Result<void> Ledger::restore(Lease lease) {
  return impl_->restore(std::move(lease));
}

Result<void> Ledger::restore_group(GroupId id, GroupRequest request, std::vector<BundleGrant> bundles, TimePoint now) {
  return impl_->restore_group(id, std::move(request), std::move(bundles), now);
}

Ledger::Events Ledger::advance(TimePoint now) {
  return impl_->advance(now);
}

std::optional<TimePoint> Ledger::next_timeout() const {
  return impl_->next_timeout();
}

std::vector<NodeView> Ledger::nodes() const {
  return impl_->nodes();
}

std::optional<NodeView> Ledger::node(std::string_view name) const {
  return impl_->node(name);
}

std::vector<Lease> Ledger::leases() const {
  return impl_->leases();
}

const Lease* Ledger::find_lease(LeaseId id) const {
  return impl_->find_lease(id);
}

std::vector<Lease> Ledger::remains() const {
  return impl_->remains();
}

const Lease* Ledger::find_remains(LeaseId id) const {
  return impl_->find_remains(id);
}

const Lease* Ledger::lease_of(RequestId id) const {
  return impl_->lease_of(id);
}

std::vector<BundleGrant> Ledger::bundles_of(GroupId id) const {
  return impl_->bundles_of(id);
}

bool Ledger::is_pending(RequestId id) const {
  return impl_->queue().find(id) != nullptr;
}

bool Ledger::could_be_served(RequestId id) const {
  const auto* entry = impl_->queue().find(id);
  return entry != nullptr && entry->shape->prospect.feasible && !impl_->over_quota(id);
}

std::size_t Ledger::pending_count() const {
  return impl_->queue().entries().size();
}

void Ledger::for_each_pending(std::size_t most_reasons, const std::function<bool(const PendingView&)>& visit) const {
  impl_->for_each_pending(most_reasons, visit);
}

std::vector<PendingView> Ledger::pending() const {
  return impl_->pending();
}

std::vector<ReservationView> Ledger::reservations() const {
  return impl_->reservations();
}

std::vector<NodeVerdict> Ledger::verdicts(const ResourceRequest& request, RequestId waiting) const {
  return impl_->verdicts(request, waiting);
}

std::vector<QuotaView> Ledger::quotas() const {
  return impl_->quotas();
}

std::optional<std::string> Ledger::over_quota(RequestId id) const {
  return impl_->over_quota(id);
}

std::optional<std::string> Ledger::over_quota(GroupId id) const {
  return impl_->over_quota(id);
}

bool Ledger::waits_in_vain(RequestId id) const {
  return impl_->waits_in_vain(id);
}

bool Ledger::waits_in_vain(GroupId id) const {
  return impl_->waits_in_vain(id);
}

void Ledger::check() const {
  impl_->check();
}

} // namespace gpuactors
