#include <gpuactors/actor/holder_name.hpp>
#include <gpuactors/actor/placement.hpp>

#include <fmt/format.h>

namespace gpuactors {

// -- QuotaTable -----------------------------------------------------------------------------------

void QuotaTable::add(LeaseId lease, int device, std::shared_ptr<Quota> quota) {
  const std::lock_guard lock{mutex_};
  quotas_[lease].emplace_back(device, std::move(quota));
}

void QuotaTable::remove(LeaseId lease) {
  const std::lock_guard lock{mutex_};
  quotas_.erase(lease);
}

std::shared_ptr<Quota> QuotaTable::find(LeaseId lease, int device) const {
  const std::lock_guard lock{mutex_};
  if (const auto found = quotas_.find(lease); found != quotas_.end())
    for (const auto& [index, quota] : found->second)
      if (index == device)
        return quota;
  return nullptr;
}

std::uint64_t QuotaTable::used(LeaseId lease) const {
  const std::lock_guard lock{mutex_};
  std::uint64_t result = 0;
  if (const auto found = quotas_.find(lease); found != quotas_.end())
    for (const auto& [index, quota] : found->second)
      result += quota->used();
  return result;
}

// -- Placement ------------------------------------------------------------------------------------

Result<std::unique_ptr<Placement>> Placement::open(LeaseInfo lease, const std::vector<std::shared_ptr<Device>>& devices,
                                                   const std::string& holder, std::shared_ptr<QuotaTable> quotas,
                                                   bool runtime_source, HolderControl* control) {
  auto result = std::unique_ptr<Placement>{new Placement(std::move(lease), std::move(quotas))};
  for (const auto& granted : result->lease_.devices) {
    auto device = find_device(devices, granted.index);
    if (device == nullptr)
      return fail(Errc::device_lost,
                  fmt::format("lease {} names device {} of node {}, which is none of its {} devices",
                              result->lease_.id.value(), granted.index, result->lease_.node, devices.size()));
    ContextOptions options;
    options.share = granted.share;
    options.memory_bytes = granted.memory_bytes;
    options.holder = holder + detail::place_in_words(result->lease_.node, {granted.index});
    options.runtime_source = runtime_source;
    if (result->lease_.parent)
      options.parent = result->quotas_->find(result->lease_.parent, granted.index);
    auto context = Context::open(std::move(device), std::move(options));
    if (!context && context.error().code() == Errc::context_lost && control != nullptr) {
      control->report_lost({granted.index});
      return fail(Errc::worker_died, fmt::format("a sticky error had lost device {} to the process before: {}",
                                                 granted.index, context.error().message()));
    }
    if (!context)
      return fail(context.error());
    result->quotas_->add(result->lease_.id, granted.index, (*context)->quota());
    result->contexts_.push_back(std::move(*context));
  }
  return result;
}

Placement::~Placement() {
  quotas_->remove(lease_.id);
}

Result<std::uint64_t> Placement::reclaim() {
  std::uint64_t bytes = 0;
  std::optional<Error> first;
  for (const auto& context : contexts_) {
    auto freed = context->reclaim();
    if (freed)
      bytes += *freed;
    else if (!first)
      first = freed.error();
  }
  if (first)
    return fail(*first);
  return bytes;
}

std::vector<int> Placement::lost_devices() const {
  std::vector<int> lost;
  for (std::size_t i = 0; i < contexts_.size(); ++i)
    if (contexts_[i]->lost())
      lost.push_back(lease_.devices[i].index);
  return lost;
}

} // namespace gpuactors
