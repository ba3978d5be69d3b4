// What a request can hope for, and why it waits or never will be served, in words.
#include <gpuactors/ledger/explain.hpp>
#include <gpuactors/ledger/impl.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

using ledger_detail::explain;
using ledger_detail::explain_in;
using ledger_detail::place_in;

namespace {

// "lease 5 (\"a\")", or "lease 5" when it has no name.
std::string named(std::string_view what, std::uint64_t id, std::string_view name) {
  return name.empty() ? fmt::format("{} {}", what, id) : fmt::format("{} {} (\"{}\")", what, id, name);
}

} // namespace

Ledger::Impl::Prospect Ledger::Impl::prospect_of(const ShapeKey& key) {
  Lens lens{Lens::Amount::all, {}};
  if (key.is_group()) {
    lens.holds = kept_holds(key.keeper);
    const bool fits = place_group(cluster_, key.bundles, key.strategy, lens, kept_nodes(key.keeper)).has_value();
    return {fits, fits};
  }
  const auto& request = key.request;
  if (request.parent)
    lens.holds = ancestor_holds(request.parent);
  bool fits = false;
  if (request.group) {
    const auto& group = groups_.at(request.group);
    fits = std::any_of(group.bundles.begin(), group.bundles.end(), [&](const Bundle& bundle) {
      return (request.bundle == -1 || request.bundle == bundle.grant.bundle)
             && place_in(*bundle.pool, request, lens).has_value();
    });
    // A bundle that waits itself may turn out to have room.
    if (group.lacks(request.bundle))
      return {true, fits};
  } else {
    fits = fits_somewhere(cluster_, request, lens);
  }
  return {fits || (request.parent && could_borrow(request, lens)), fits};
}

std::string Ledger::Impl::why_infeasible(const ShapeKey& key) const {
  Lens lens{Lens::Amount::all, {}};
  if (key.is_group()) {
    lens.holds = kept_holds(key.keeper);
    return explain_group(cluster_, key.bundles, key.strategy, lens, kept_nodes(key.keeper));
  }
  const auto& request = key.request;
  std::string reason;
  if (request.group) {
    const auto& bundles = groups_.at(request.group).bundles;
    for (const auto& bundle : bundles)
      if (reason.empty() && (request.bundle == -1 || request.bundle == bundle.grant.bundle))
        reason = explain_in(*bundle.pool, request, lens, fmt::format("bundle {}", bundle.grant.bundle));
    if (request.bundle == -1)
      reason = "no bundle has room for it: " + reason;
  } else {
    reason = explain(cluster_, request, lens);
  }
  if (!request.parent || (!reason.empty() && !request.group))
    return reason;
  // It would fit if it were not for its own ancestors.
  lens.holds = ancestor_holds(request.parent);
  const auto rest = request.group ? reason : explain(cluster_, request, lens);
  const auto* parent = live(request.parent);
  return fmt::format("it would wait for its own parent: it does not fit in {}, and as long as that is held {}",
                     named("lease", request.parent.value(), parent == nullptr ? "" : parent->lease.name), rest);
}

std::string Ledger::Impl::why_pending(const ShapeKey& key, bool feasible) const {
  const auto& request = key.request;
  const Lens lens{Lens::Amount::free, {}};
  std::string reason;
  if (!feasible)
    return "it waits for new nodes: " + why_infeasible(key);
  if (key.is_group()) {
    reason = explain_group(cluster_, key.bundles, key.strategy, lens, kept_nodes(key.keeper));
  } else if (!request.group) {
    reason = explain(cluster_, request, lens);
  } else {
    const auto& group = groups_.at(request.group);
    if (group.lacks(request.bundle))
      return fmt::format("{} waits itself", named("placement group", request.group.value(), group.request.name));
    for (const auto& bundle : group.bundles)
      if (reason.empty() && (request.bundle == -1 || request.bundle == bundle.grant.bundle))
        reason = explain_in(*bundle.pool, request, lens, fmt::format("bundle {}", bundle.grant.bundle));
  }
  return reason.empty() ? "what is free is held back for a request that has waited longer" : reason;
}

} // namespace gpuactors
