// Runs a scenario step by step as it is parsed, so that a long one needs no more memory than its state.
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/plan/detail/bars.hpp>
#include <gpuactors/plan/detail/explainer.hpp>
#include <gpuactors/plan/detail/runner.hpp>
#include <gpuactors/plan/detail/timeline.hpp>
#include <gpuactors/plan/detail/writer.hpp>
#include <gpuactors/plan/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <memory>
#include <set>

namespace gpuactors {

namespace {

using plan_detail::Json;
using plan_detail::Runner;
using plan_detail::ScenarioError;

// Follows the parser: elements of `nodes` and `steps` are run as soon as they are complete, and forgotten.
class Scenario {
public:
  explicit Scenario(Runner& runner) : runner_(runner) {
    // nop
  }

  // Returns whether the parser should keep the value.
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    if (depth == 0 && (event == Json::parse_event_t::array_start || event == Json::parse_event_t::value))
      throw ScenarioError("the scenario is no object: {\"nodes\":[...],\"steps\":[...]} is expected");
    if (depth == 1 && event == Json::parse_event_t::key)
      return enter(value.get<std::string>());
    if (event == Json::parse_event_t::object_start)
      keys_.resize(std::min(keys_.size(), static_cast<std::size_t>(depth)));
    if (event == Json::parse_event_t::key)
      note_key(static_cast<std::size_t>(depth), value.get<std::string>());
    if (depth == 1 && (event == Json::parse_event_t::object_start || event == Json::parse_event_t::value))
      throw ScenarioError(fmt::format("{} is no array: an array of objects is expected", field_));
    if (depth != 2)
      return true;
    if (event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end
        || event == Json::parse_event_t::value) {
      element(value);
      return false;
    }
    return true;
  }

  /// Returns the place of the element that is being read, such as `steps[3]`.
  [[nodiscard]] std::string place() const {
    return fmt::format("{}[{}]", field_, field_ == "nodes" ? next_node_ : next_step_ + early_steps_.size());
  }

  // Runs the steps that came before the nodes.
  void finish() {
    for (const auto& step : early_steps_)
      runner_.run_step(step, next_step_++);
  }

private:
  bool enter(std::string field) {
    static const std::vector<std::string> known = {"nodes", "steps"};
    if (std::find(known.begin(), known.end(), field) == known.end())
      throw ScenarioError(fmt::format("{}: unknown field{}", field, did_you_mean(field, known)));
    if (std::find(seen_.begin(), seen_.end(), field) != seen_.end())
      throw ScenarioError(fmt::format("{} is there twice", field));
    seen_.push_back(field);
    field_ = std::move(field);
    return true;
  }

  // The parser takes a field that comes twice, and keeps the last one.
  void note_key(std::size_t depth, std::string key) {
    keys_.resize(std::max(keys_.size(), depth));
    const auto [it, is_new] = keys_[depth - 1].insert(std::move(key));
    if (!is_new)
      throw ScenarioError(fmt::format("{}: {} is there twice in one object", place(), *it));
  }

  // Moves the value: to copy one that is nested deeply takes a stack as deep.
  void element(Json& value) {
    if (field_ == "nodes")
      runner_.add_node(value, fmt::format("nodes[{}]", next_node_++));
    else if (seen_.front() == "nodes")
      runner_.run_step(value, next_step_++);
    else
      early_steps_.push_back(std::move(value));
  }

  Runner& runner_;
  std::string field_;
  std::vector<std::string> seen_;
  // The fields of the objects that are being read, from the outermost one on.
  std::vector<std::set<std::string>> keys_;
  std::size_t next_node_ = 0;
  std::size_t next_step_ = 0;
  std::vector<Json> early_steps_;
};

// Returns "parse error at line 1, column 7: ...", without the parser's own name for the error.
std::string without_prefix(std::string_view text) {
  const auto end = text.find("] ");
  return std::string{end == std::string_view::npos ? text : text.substr(end + 2)};
}

} // namespace

Result<void> run_plan(std::istream& in, std::ostream& out, const PlanOptions& options) {
  std::vector<std::unique_ptr<plan_detail::Observer>> observers;
  if (options.events)
    observers.push_back(std::make_unique<plan_detail::LineWriter>(out));
  if (!options.explain.empty())
    observers.push_back(std::make_unique<plan_detail::Explainer>(out, options.explain, options.json));
  if (options.table)
    observers.push_back(std::make_unique<plan_detail::BarWriter>(out));
  if (options.svg != nullptr)
    observers.push_back(std::make_unique<plan_detail::TimelineRecorder>(*options.svg));
  Runner runner(observers);
  Scenario scenario(runner);
  try {
    // Elements are dropped from the document as soon as they have run: nothing is left in the end.
    const auto rest = Json::parse(
        in, [&](int depth, Json::parse_event_t event, Json& value) { return scenario(depth, event, value); });
    scenario.finish();
    runner.finish();
  } catch (const ScenarioError& error) {
    return fail(Errc::invalid_argument, error.message);
  } catch (const Json::exception& error) {
    // The parser's error about a number that no double holds has no position: adds the place.
    const auto text = without_prefix(error.what());
    return fail(Errc::invalid_argument,
                text.find("line ") == std::string::npos ? scenario.place() + ": " + text : text);
  }
  return {};
}

} // namespace gpuactors
