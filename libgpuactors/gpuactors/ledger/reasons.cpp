// Whether a request can be served at all, and the texts why it waits or never will be served.
#include <gpuactors/ledger/explain.hpp>
#include <gpuactors/ledger/group_placement.hpp>
#include <gpuactors/ledger/ledger.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors {

using ledger_detail::explain;
using ledger_detail::explain_here;
using ledger_detail::explain_in;
using ledger_detail::has_type;
using ledger_detail::place_in;

namespace {

// Renders "lease 5 (\"a\")", or "lease 5" without a name.
std::string named(std::string_view what, std::uint64_t id, std::string_view name) {
  return name.empty() ? fmt::format("{} {}", what, id) : fmt::format("{} {} (\"{}\")", what, id, name);
}

// Returns why the request does not fit in the first of the bundles it may draw from that has no room for it.
std::string explain_bundles(const ledger_detail::GroupRecord& group, const ResourceRequest& request,
                            const ledger_detail::Lens& lens, const ledger_detail::TypeTable& types) {
  std::string reason;
  for (const auto& bundle : group.bundles)
    if (reason.empty() && bundle.serves(request))
      reason = explain_in(*bundle.pool, request, lens, types, fmt::format("bundle {}", bundle.grant.bundle));
  return reason;
}

} // namespace

Ledger::Prospect Ledger::prospect_of(const ShapeKey& key) {
  const auto charge = charge_of(key);
  auto prospect = prospect_with(key, charge);
  prospect.charge = charge;
  return prospect;
}

Ledger::Prospect Ledger::prospect_with(const ShapeKey& key, std::int64_t charge) {
  Lens lens{Lens::Amount::all, {}};
  const auto most = most_room_for(key);
  const bool allowed = charge <= most;
  lens.limit_share(most);
  if (key.is_group()) {
    if (!allowed)
      return {false, false, false};
    lens.holds = kept_holds(key.keeper);
    const bool fits = place_group(table_, key.bundles, key.strategy, lens, kept_nodes(key.keeper)).has_value();
    return {fits, fits, !fits && fits_with_drained(key, lens)};
  }
  const auto& request = key.request;
  if (request.parent)
    lens.holds = ancestor_holds(request.parent);
  bool fits = false;
  if (request.group) {
    const auto& group = groups_.at(request.group);
    fits = std::any_of(group.bundles.begin(), group.bundles.end(), [&](const Bundle& bundle) {
      return bundle.serves(request) && place_in(*bundle.pool, request, lens).has_value();
    });
    // A bundle that itself waits for a place may turn out to have room.
    if (group.lacks(request.bundle))
      return {true, fits};
  } else {
    fits = allowed && fits_somewhere(table_, request, lens);
  }
  const auto could_borrow = [&] {
    auto of_lenders = lens;
    // What is borrowed counts as the lender's already.
    of_lenders.most_share = Share::whole(1);
    return find_loan(request, of_lenders).has_value();
  };
  const bool feasible = fits || (request.parent && could_borrow());
  return {feasible, fits, !feasible && allowed && fits_with_drained(key, lens)};
}

bool Ledger::fits_with_drained(const ShapeKey& key, Lens lens) {
  // What draws from a bundle does so whether or not the bundle's node is drained.
  if (!table_.has_drained() || key.request.group)
    return false;
  lens.with_drained = true;
  return key.is_group() ? place_group(table_, key.bundles, key.strategy, lens, kept_nodes(key.keeper)).has_value()
                        : fits_somewhere(table_, key.request, lens);
}

std::string Ledger::why_infeasible(const ShapeKey& key) const {
  if (auto reason = why_beyond_quota(key); !reason.empty())
    return reason;
  Lens lens{Lens::Amount::all, {}, true};
  if (key.is_group()) {
    lens.holds = kept_holds(key.keeper);
    return explain_group(table_, key.bundles, key.strategy, lens, kept_nodes(key.keeper));
  }
  const auto& request = key.request;
  std::string reason;
  if (request.group) {
    reason = explain_bundles(groups_.at(request.group), request, lens, table_.types());
    if (request.bundle == -1)
      reason = "no bundle has room for it: " + reason;
  } else {
    reason = explain(table_, request, lens);
  }
  if (!request.parent || (!reason.empty() && !request.group) || lacks_type(key))
    return reason;
  // The request would fit but for the leases of its own ancestors.
  lens.holds = ancestor_holds(request.parent);
  const auto rest = request.group ? reason : explain(table_, request, lens);
  const auto* parent = live(request.parent);
  return fmt::format("it would wait for its own parent: it does not fit in {}, and as long as that is held {}",
                     named("lease", request.parent.value(), parent == nullptr ? "" : parent->lease.name), rest);
}

bool Ledger::lacks_type(const ShapeKey& key) const {
  const auto& request = key.request;
  if (key.is_group() || !request.type)
    return false;
  const auto lacks = [&](const Node* node) { return node != nullptr && !has_type(node->types, request.type); };
  if (request.group) {
    std::size_t asked = 0;
    std::size_t lacking = 0;
    for (const auto& bundle : groups_.at(request.group).bundles)
      if (bundle.serves(request)) {
        ++asked;
        lacking += lacks(bundle.source->node) ? 1 : 0;
      }
    return asked > 0 && lacking == asked;
  }
  if (ledger_detail::needs_node(request))
    return lacks(table_.find(request.node));
  return !table_.nodes().empty() && table_.types().lacking(request.type) == table_.nodes().size();
}

Error Ledger::infeasible(const ShapeKey& key) const {
  const bool not_found = lacks_type(key) && why_beyond_quota(key).empty();
  return Error{not_found ? Errc::not_found : Errc::infeasible, why_infeasible(key)};
}

std::string Ledger::why_drained(const ShapeKey& key) const {
  Lens lens{Lens::Amount::all, key.is_group() ? kept_holds(key.keeper) : ancestor_holds(key.request.parent), true};
  const auto fits_on = [&](const Pool& pool) {
    const auto fits = [&](const ResourceRequest& request) { return place_in(pool, request, lens).has_value(); };
    return key.is_group() ? std::any_of(key.bundles.begin(), key.bundles.end(), fits) : fits(key.request);
  };
  constexpr std::size_t most_names = 8;
  std::size_t count = 0;
  std::string names;
  for (const auto& [name, node] : table_.nodes())
    if (!node.takes_leases() && fits_on(node.pool) && ++count <= most_names)
      names += (names.empty() ? "" : ", ") + name;
  if (count > most_names)
    names += fmt::format(" and {} more", count - most_names);
  return key.is_group() ? "the bundles have no place without the nodes that are being drained: " + names
                        : "every node that could serve it is being drained: " + names;
}

std::string Ledger::why_pending(const ShapeKey& key, const Prospect& prospect, QueueKey at) const {
  auto reason = why_blocked(key, prospect);
  return reason.empty() ? held_back_for(key, at) : reason;
}

std::string Ledger::why_blocked(const ShapeKey& key, const Prospect& prospect) const {
  const auto& request = key.request;
  if (!prospect.feasible)
    if (auto beyond = why_beyond_quota(key); !beyond.empty())
      return beyond;
  if (prospect.drained)
    return why_drained(key);
  if (!prospect.feasible)
    return "it waits for new nodes: " + why_infeasible(key);
  if (auto over = why_over_quota(key, prospect.charge); !over.empty())
    return over;
  const Lens lens;
  if (key.is_group())
    return explain_group(table_, key.bundles, key.strategy, lens, kept_nodes(key.keeper)) + within_quota(key);
  if (!request.group)
    return explain(table_, request, lens);
  const auto& group = groups_.at(request.group);
  if (group.lacks(request.bundle))
    return fmt::format("{} waits itself", named("placement group", request.group.value(), group.request.name));
  return explain_bundles(group, request, lens, table_.types());
}

std::string Ledger::held_back_for(QueueKey at, const std::function<bool(const Pool&, const Lens&)>& fits) const {
  const auto text = [this](const Claim& claim, const ReservedPlace& place) {
    const auto& holder = *queue_.find(claim.holder);
    const auto id = holder.request ? holder.request.value() : holder.group.value();
    const auto left = std::chrono::duration<double>(claim.reservation->until - now_).count();
    return fmt::format("what is free is held back for {}, which has waited longer: on node {}, for at most {:.3g} s",
                       named(holder.request ? "request" : "placement group", id, holder.name),
                       place.at.pool->node->spec.name, left);
  };
  // Bundles that fit one by one, and not together, are in the way of nothing alone.
  std::string likely;
  Lens bound;
  for (auto it = claims_.rbegin(); it != claims_.rend(); ++it) {
    const auto& claim = it->second;
    if (!claim.reservation || !(claim.holder < at))
      continue;
    const auto& places = claim.reservation->places;
    for (const auto& place : places)
      bound.holds.push_back({place.at.pool, &place.at.devices, place.cpus, &place.resources});
    for (const auto& place : places) {
      const auto& pool = *place.at.pool;
      if (!fits(pool, Lens{}))
        continue;
      if (!fits(pool, bound))
        return text(claim, place);
      if (likely.empty())
        likely = text(claim, place);
    }
  }
  return likely.empty() ? "what is free is held back for a request that has waited longer" : likely;
}

std::string Ledger::held_back_for(const ShapeKey& key, QueueKey at) const {
  return held_back_for(at, [&](const Pool& pool, const Lens& lens) {
    const auto fits = [&](const ResourceRequest& request) {
      return may_draw_from(pool, request) && place_in(pool, request, lens).has_value();
    };
    return key.is_group() ? std::any_of(key.bundles.begin(), key.bundles.end(), fits) : fits(key.request);
  });
}

std::vector<NodeVerdict> Ledger::verdicts(const ResourceRequest& request, RequestId waiting) const {
  const auto* entry = waiting ? queue_.find(waiting) : nullptr;
  return verdicts_at(request, entry != nullptr ? entry->key : QueueKey::last_of(request.priority));
}

std::vector<NodeVerdict> Ledger::verdicts(const ResourceRequest& bundle, GroupId waiting) const {
  const auto* entry = entry_of(waiting);
  return verdicts_at(bundle, entry != nullptr ? entry->key : QueueKey::last_of(bundle.priority));
}

std::vector<NodeVerdict> Ledger::verdicts_at(const ResourceRequest& request, QueueKey key) const {
  const Lens now{Lens::Amount::free, {}};
  const Lens all{Lens::Amount::all, {}, true};
  const auto bound = binding(key);
  const auto& types = table_.types();
  const auto ask = [&](const Pool& pool, int bundle) {
    using Kind = NodeVerdict::Kind;
    const bool new_lease = bundle < 0;
    const auto verdict = [&](Kind kind, std::string reason) {
      return NodeVerdict{pool.node->spec.name, bundle, kind, std::move(reason)};
    };
    if (auto reason = explain_here(pool, request, all, types, new_lease); !reason.empty())
      return verdict(Kind::never, std::move(reason));
    if (new_lease && !pool.node->takes_leases())
      return verdict(Kind::draining, "takes no new leases");
    if (auto reason = explain_here(pool, request, now, types, new_lease); !reason.empty())
      return verdict(Kind::busy, std::move(reason));
    if (!explain_here(pool, request, bound, types, new_lease).empty())
      return verdict(Kind::held_back, held_back_for(key, [&](const Pool& reserved, const Lens& lens) {
                       return &reserved == &pool && explain_here(pool, request, lens, types, new_lease).empty();
                     }));
    return verdict(Kind::fits, {});
  };
  std::vector<NodeVerdict> verdicts;
  if (!request.group) {
    for (const auto& [name, node] : table_.nodes())
      verdicts.push_back(ask(node.pool, -1));
  } else if (const auto it = groups_.find(request.group); it != groups_.end()) {
    for (const auto& bundle : it->second.bundles)
      if (bundle.serves(request))
        verdicts.push_back(ask(*bundle.pool, bundle.grant.bundle));
  }
  return verdicts;
}

} // namespace gpuactors
