#include <gpuactors/base/suggest.hpp>
#include <gpuactors/ledger/need.hpp>
#include <gpuactors/plan/detail/explainer.hpp>
#include <gpuactors/plan/reader.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

namespace gpuactors::plan_detail {

namespace {

// How many similar ids are kept: enough to suggest the nearest of them.
constexpr std::size_t most_alike = 1000;

// "0.5 of a device of type H100, 2 cpus and 1 neuron_cores"
std::string describe(const ResourceRequest& request) {
  std::vector<std::string> parts;
  const bool devices = ledger_detail::wants_devices(request);
  if (devices || !request.accelerator_type.empty())
    parts.push_back((devices ? "" : "a node with ") + ledger_detail::describe_devices(request));
  if (devices && request.gpus > Share{} && request.memory_bytes > 0)
    parts.push_back(ledger_detail::describe_bytes(request.memory_bytes) + " on each");
  if (request.cpus > Share{})
    parts.push_back(to_string(request.cpus) + " cpus");
  for (const auto& [name, amount] : request.resources)
    parts.push_back(ledger_detail::describe_resource(name, amount));
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string where(const std::string& node, const std::vector<DeviceGrant>& devices) {
  std::string text = "node " + node;
  for (const auto& device : devices)
    text += fmt::format("{} device {} ({} of it)", &device == &devices.front() ? "," : " and", device.index,
                        to_string(device.share));
  return text;
}

std::string describe(const Event& event) {
  if (event.kind == Event::Kind::granted && event.lease)
    return fmt::format("granted: {}{}", where(event.lease->node, event.lease->devices),
                       event.lease->parent ? ", lent by its parent" : "");
  auto text = std::string{to_string(event.kind)};
  for (const auto& bundle : event.bundles)
    text += fmt::format("{} bundle {} on {}", bundle.bundle == 0 ? ":" : ",", bundle.bundle,
                        where(bundle.node, bundle.devices));
  return event.reason.empty() ? text : text + ": " + event.reason;
}

Json to_json(const DeviceGrant& device) {
  // A double prints the four decimals of a share exactly.
  return {{"index", device.index},
          {"share", device.share.to_double()},
          {"memory_bytes", std::to_string(device.memory_bytes)}};
}

Json place_to_json(const std::string& node, const std::vector<DeviceGrant>& devices) {
  Json list = Json::array();
  for (const auto& device : devices)
    list.push_back(to_json(device));
  return {{"node", node}, {"devices", std::move(list)}};
}

Json to_json(const Event& event, std::size_t step) {
  Json result{{"step", step}, {"event", to_string(event.kind)}};
  if (event.kind == Event::Kind::granted && event.lease)
    result.update(place_to_json(event.lease->node, event.lease->devices));
  for (const auto& bundle : event.bundles)
    result["bundles"].push_back(place_to_json(bundle.node, bundle.devices));
  if (!event.reason.empty())
    result["reason"] = event.reason;
  return result;
}

} // namespace

std::vector<Explainer::Line> Explainer::ask(const Ledger& ledger) const {
  std::vector<Line> lines;
  for (std::size_t i = 0; i < asked_.size(); ++i)
    for (auto& verdict : is_group_ ? ledger.verdicts(asked_[i], group_) : ledger.verdicts(asked_[i], request_))
      lines.push_back({is_group_ ? static_cast<int>(i) : -1, std::move(verdict)});
  return lines;
}

void Explainer::remember(const std::string& id) {
  if (asked_.empty() && alike_.size() < most_alike && !nearest_names(id_, {id}).empty())
    alike_.push_back(id);
}

void Explainer::before_submit(const Ledger& ledger, std::size_t step, const std::string& id,
                              const ResourceRequest& request) {
  if (id != id_)
    return remember(id);
  // A request and a group may have the same id: the first one is explained.
  if (!asked_.empty())
    return;
  asked_ = {request};
  type_ = ledger.type_name(request.type);
  snapshots_.push_back({step, ask(ledger)});
}

void Explainer::before_submit_group(const Ledger& ledger, std::size_t step, const std::string& id,
                                    const GroupRequest& group) {
  if (id != id_)
    return remember(id);
  if (!asked_.empty())
    return;
  is_group_ = true;
  if (group.bundles.empty()) // no node could be asked for it; the answer says why
    return;
  asked_ = group.bundles;
  for (auto& bundle : asked_)
    bundle.priority = group.priority;
  snapshots_.push_back({step, ask(ledger)});
}

void Explainer::on_event(const Ledger&, std::size_t step, const Event& event, const std::string& id) {
  // A request that the rules refuse is never submitted to the ledger, so nothing was asked for it.
  if (id == id_ && (asked_.empty() || is_group_ == static_cast<bool>(event.group))) {
    request_ = event.request ? event.request : request_;
    group_ = event.group ? event.group : group_;
    answers_.push_back({step, event});
  }
}

void Explainer::on_end(const Ledger& ledger, const Names&) {
  if (answers_.empty())
    throw ScenarioError(
        fmt::format("no step has submitted \"{}\", which is to be explained{}", id_, did_you_mean(id_, alike_)));
  if (!asked_.empty() && answers_.back().event.kind == Event::Kind::pending)
    snapshots_.push_back({std::nullopt, ask(ledger)});
  json_ ? write_json() : write_text();
}

void Explainer::write_text() const {
  if (!asked_.empty()) {
    out_ << fmt::format("\"{}\" asks for {}", id_,
                        is_group_ ? fmt::format("{} bundles together", asked_.size()) : describe(asked_.front()));
    if (!type_.empty())
      out_ << fmt::format(", on a node with the type \"{}\"", type_);
    if (is_group_)
      for (std::size_t i = 0; i < asked_.size(); ++i)
        out_ << fmt::format("{} bundle {}: {}", i == 0 ? ":" : ";", i, describe(asked_[i]));
    out_ << '\n';
  }
  for (const auto& answer : answers_)
    out_ << fmt::format("step {}: {}\n", answer.step, describe(answer.event));
  for (const auto& snapshot : snapshots_)
    write_snapshot(snapshot);
}

void Explainer::write_snapshot(const Snapshot& snapshot) const {
  const auto time = snapshot.step ? fmt::format("As step {} found the nodes:", *snapshot.step)
                                  : std::string{"At the end, where it still waits:"};
  out_ << '\n' << time << '\n';
  if (snapshot.lines.empty())
    out_ << (asked_.front().group ? "  its placement group waits itself: no node is asked\n"
                                  : "  no node is registered\n");
  // Finds out whether the submission was granted at once, to mark the chosen node.
  const auto& first = answers_.front().event;
  const bool granted = snapshot.step && first.kind == Event::Kind::granted && first.lease;
  std::vector<std::string> names;
  std::size_t width = 0;
  for (const auto& line : snapshot.lines) {
    const auto place = line.verdict.bundle < 0 ? "" : fmt::format(", bundle {}", line.verdict.bundle);
    names.push_back(line.verdict.node + place
                    + (line.asked_bundle < 0 ? "" : fmt::format(", for bundle {}", line.asked_bundle)));
    width = std::max(width, names.back().size());
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& verdict = snapshot.lines[i].verdict;
    const bool chosen =
        granted && first.lease->node == verdict.node && (verdict.bundle < 0 || first.lease->bundle == verdict.bundle);
    const auto text = fmt::format("  {:<{}}  {:<9}  {}", names[i], width, to_string(verdict.kind),
                                  chosen ? "granted here" : verdict.reason);
    out_ << text.substr(0, text.find_last_not_of(' ') + 1) << '\n';
  }
}

void Explainer::write_json() const {
  Json result{{"id", id_}, {"events", Json::array()}};
  for (const auto& answer : answers_)
    result["events"].push_back(to_json(answer.event, answer.step));
  for (const auto& snapshot : snapshots_) {
    Json nodes = Json::array();
    for (const auto& line : snapshot.lines) {
      Json node{{"node", line.verdict.node}, {"verdict", to_string(line.verdict.kind)}};
      if (!line.verdict.reason.empty())
        node["reason"] = line.verdict.reason;
      if (line.verdict.bundle >= 0 || line.asked_bundle >= 0)
        node["bundle"] = line.asked_bundle >= 0 ? line.asked_bundle : line.verdict.bundle;
      nodes.push_back(std::move(node));
    }
    result[snapshot.step ? "when_submitted" : "at_the_end"] = std::move(nodes);
  }
  out_ << result.dump() << '\n';
}

} // namespace gpuactors::plan_detail
