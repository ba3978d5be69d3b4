#include "model_table.hpp"

#include "metrics.hpp"
#include "request_check.hpp"

#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/suggest.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/sizes.hpp>

#include <fmt/format.h>

#include <utility>

namespace serve {

using gpuactors::Clock;
using gpuactors::deadline_after;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::TimePoint;

namespace {

/// A request that was accepted. It holds the request weakly: whoever answers drops it.
class PendingTicket final : public Service::Ticket {
public:
  PendingTicket(std::shared_ptr<Dispatcher> dispatcher, const std::shared_ptr<Pending>& pending)
    : dispatcher_(std::move(dispatcher)), pending_(pending) {
    // nop
  }

  void cancel() noexcept override {
    if (const auto pending = pending_.lock())
      dispatcher_->cancel(*pending);
  }

private:
  std::shared_ptr<Dispatcher> dispatcher_;
  std::weak_ptr<Pending> pending_;
};

/// A request that was answered at once.
class AnsweredTicket final : public Service::Ticket {
public:
  void cancel() noexcept override {
    // nop
  }
};

gpuactors::Failure server_ends() {
  return gpuactors::fail(Errc::unavailable, "the server ends");
}

} // namespace

// -- life -----------------------------------------------------------------------------------------

ModelTable::ModelTable(gpuactors::Cluster& cluster, TableOptions options)
  : cluster_(cluster), nodes_(std::make_shared<NodeWatch>(cluster)), options_(std::move(options)) {
  // nop
}

ModelTable::~ModelTable() {
  close(TimePoint{});
}

Result<void> ModelTable::add(const ModelConfig& config) {
  const std::unique_lock lock{mutex_};
  auto model = std::make_shared<Model>();
  model->config = config;
  if (!models_.emplace(config.name, std::move(model)).second)
    return gpuactors::fail(Errc::already_exists, fmt::format("there are two models named \"{}\"", config.name));
  return {};
}

void ModelTable::close(TimePoint until) {
  std::vector<ModelPtr> models;
  std::vector<std::shared_ptr<Dispatcher>> serving;
  {
    const std::unique_lock lock{mutex_};
    closing_ = true;
    for (const auto& [name, model] : models_) {
      models.push_back(model);
      if (model->coming)
        model->coming->bell->stop(!options_.deployment.empty());
      for (const auto& ending : model->ending)
        ending->drop_sequences();
      for (const auto* version : {&model->canary, &model->current})
        if (*version != nullptr)
          serving.push_back((*version)->dispatcher());
    }
  }
  // All at once: nobody waits for the replicas of others before it is told that the server ends.
  for (const auto& dispatcher : serving)
    dispatcher->close(until);
  for (const auto& model : models) {
    const std::lock_guard one_at_a_time{model->loading};
    std::vector<std::unique_ptr<ModelVersion>> last;
    {
      const std::unique_lock lock{mutex_};
      last = take_versions(*model);
      model->reason = "the server ends";
    }
    for (auto& version : last)
      end(*model, std::move(version), until, false, !options_.deployment.empty());
  }
}

std::vector<std::unique_ptr<ModelVersion>> ModelTable::take_versions(Model& model) {
  std::vector<std::unique_ptr<ModelVersion>> taken;
  for (auto* version : {&model.canary, &model.current})
    if (*version != nullptr) {
      model.ending.push_back((*version)->dispatcher());
      taken.push_back(std::move(*version));
    }
  return taken;
}

void ModelTable::end(Model& model, std::unique_ptr<ModelVersion> version, TimePoint until, bool sequences_end,
                     bool replicas_stay) {
  if (version == nullptr)
    return;
  version->end(until, sequences_end, replicas_stay);
  const std::unique_lock lock{mutex_};
  std::erase(model.ending, version->dispatcher());
}

// -- requests -------------------------------------------------------------------------------------

std::shared_ptr<Service::Ticket> ModelTable::infer(InferRequest request, InferDone done) {
  const auto arrived = request.arrived.value_or(Clock::now());
  // An ordinary model has nothing that would understand them, and they would only be kept.
  request.parameters.clear();
  const auto pending = std::make_shared<Pending>(std::move(request), std::move(done));
  const auto refuse = [&pending](gpuactors::Error error) {
    std::exchange(pending->done, nullptr)(gpuactors::fail(std::move(error)));
    return std::make_shared<AnsweredTicket>();
  };
  const auto& wanted = pending->request;
  for (auto deals = true;; deals = false) {
    const auto found = route(wanted.model, wanted.version, wanted.sequence, deals);
    if (!found)
      return refuse(found.error());
    if (found->dispatcher->facts().generative)
      return refuse(
          {Errc::unsupported, fmt::format("model {} answers with a stream: ask it by ModelStreamInfer over gRPC, or by "
                                          "/generate and /generate_stream over HTTP",
                                          wanted.model)});
    const auto rows = check_request(wanted, found->dispatcher->facts(), found->dispatcher->limits().max_batch);
    if (!rows && found->dealt)
      continue; // the model may take more rows than its canary
    if (!rows)
      return refuse(rows.error());
    pending->rows = *rows;
    // Where rows are of one size, the queue counts them.
    pending->bytes = batch_bytes(wanted, found->dispatcher->facts());
    set_terms(*pending, arrived, *found);
    auto ticket = std::make_shared<PendingTicket>(found->dispatcher, pending);
    if (found->dispatcher->submit(pending)) {
      end_elsewhere(*pending, *found->dispatcher);
      return ticket;
    }
    // Another version took its place in this moment: that one, or nothing, is found next.
  }
}

std::shared_ptr<Service::Replies> ModelTable::generate(InferRequest request) {
  const auto arrived = request.arrived.value_or(Clock::now());
  const auto generation = Generation::of(std::move(request));
  const auto& pending = generation->pending();
  const auto& wanted = pending->request;
  const auto refuse = [&generation](gpuactors::Error error) {
    generation->end(gpuactors::fail(std::move(error)));
    return generation;
  };
  for (auto deals = true;; deals = false) {
    const auto found = route(wanted.model, wanted.version, wanted.sequence, deals);
    if (!found)
      return refuse(found.error());
    if (!found->dispatcher->facts().generative)
      return refuse(
          {Errc::unsupported, fmt::format("model {} answers with one reply, not with a stream", wanted.model)});
    if (const auto fits = check_generation(wanted, found->dispatcher->facts()); !fits)
      return refuse(fits.error());
    pending->bytes = bytes_of(wanted);
    set_terms(*pending, arrived, *found);
    generation->belongs_to(found->dispatcher);
    if (found->dispatcher->submit(pending)) {
      end_elsewhere(*pending, *found->dispatcher);
      return generation;
    }
    pending->bytes = 0;
  }
}

void ModelTable::set_terms(Pending& pending, TimePoint arrived, const Route& route) {
  const auto& wanted = pending.request;
  pending.priority = wanted.priority > 0 ? wanted.priority : route.priority;
  pending.arrived = arrived;
  pending.starts = wanted.sequence.start;
  pending.ends = wanted.sequence.end;
  // A version that did not take it after all may have set them.
  pending.deadline = pending.begin_by = gpuactors::never;
  if (const auto timeout = wanted.timeout ? wanted.timeout : route.timeout)
    pending.deadline = deadline_after(arrived, *timeout);
  pending.deadline = std::min(pending.deadline, wanted.call_deadline);
  if (route.queue_timeout)
    pending.begin_by = deadline_after(arrived, *route.queue_timeout);
}

std::vector<const ModelVersion*> ModelTable::Model::serving() const {
  std::vector<const ModelVersion*> result;
  for (const auto* version : {current.get(), canary.get()})
    if (version != nullptr)
      result.push_back(version);
  return result;
}

Result<ModelTable::Route> ModelTable::route(std::string_view name, std::string_view version, const SequenceStep& step,
                                            bool deals) const {
  const std::shared_lock lock{mutex_};
  if (closing_)
    return server_ends();
  GPUACTORS_LET(model, find(name));
  auto goes_to = find_sequence(*model, version, step);
  const auto dealt = goes_to == nullptr && deals && version.empty() && is_canarys_turn(*model);
  if (dealt)
    goes_to = model->canary->dispatcher();
  if (goes_to == nullptr) {
    GPUACTORS_LET(found, find_version(*model, version));
    goes_to = found->dispatcher();
  }
  const auto& terms = model->terms_of(*goes_to);
  return Route{std::move(goes_to), terms.timeout, terms.queue_timeout, terms.priority, dealt};
}

bool ModelTable::is_canarys_turn(Model& model) {
  // Whoever asks for no version need not wait for the new one to have a replica again.
  if (model.current == nullptr || model.canary == nullptr || !model.canary->dispatcher()->serves())
    return false;
  const std::lock_guard lock{model.dealing};
  return model.split.next();
}

const ModelConfig& ModelTable::Model::terms_of(const Dispatcher& dispatcher) const {
  return canary != nullptr && canary->dispatcher().get() == &dispatcher ? canary_config : current_config;
}

std::shared_ptr<Dispatcher> ModelTable::find_sequence(const Model& model, std::string_view version,
                                                      const SequenceStep& step) {
  if (step.id.empty() || step.start)
    return nullptr;
  if (model.canary != nullptr)
    for (const auto* one : model.serving())
      if ((version.empty() || version == one->number()) && one->dispatcher()->has_sequence(step.id))
        return one->dispatcher();
  if (model.current != nullptr && model.current->dispatcher()->continues(step.id))
    return nullptr;
  for (const auto& ending : model.ending)
    if ((version.empty() || version == ending->facts().version) && ending->continues(step.id))
      return ending;
  return nullptr;
}

void ModelTable::end_elsewhere(const Pending& pending, const Dispatcher& taken_by) const {
  const auto& wanted = pending.request;
  if (!pending.admitted || !wanted.sequence.start)
    return;
  const std::shared_lock lock{mutex_};
  const auto model = find(wanted.model);
  if (!model)
    return;
  auto others = (*model)->ending;
  for (const auto* one : (*model)->serving())
    others.push_back(one->dispatcher());
  for (const auto& other : others)
    if (other.get() != &taken_by)
      other->end_sequence(wanted.sequence.id);
}

Result<ModelTable::ModelPtr> ModelTable::find(std::string_view name) const {
  if (const auto found = models_.find(name); found != models_.end())
    return found->second;
  // No model is named like this, and the search for a name that is alike would keep all others waiting.
  if (name.size() > gpuactors::limits::name_length)
    return gpuactors::fail(Errc::not_found, fmt::format("there is no model \"{}\"; the name has {} bytes",
                                                        cut_text(name, gpuactors::limits::name_length), name.size()));
  std::vector<std::string> names;
  for (const auto& [known, model] : models_)
    names.push_back(known);
  return gpuactors::fail(Errc::not_found,
                         fmt::format("there is no model \"{}\"{}", name, gpuactors::did_you_mean(name, names)));
}

Result<const ModelVersion*> ModelTable::find_version(const Model& model, std::string_view asked) const {
  const auto& name = model.config.name;
  const auto version = cut_text(asked, gpuactors::limits::name_length);
  if (model.current != nullptr && (version.empty() || version == model.current->number()))
    return model.current.get();
  if (model.canary != nullptr && version == model.canary->number())
    return model.canary.get();
  const auto missing = [&](Errc code, std::string_view why) {
    return gpuactors::fail(code, version.empty()
                                     ? fmt::format("model {} does not serve: {}", name, why)
                                     : fmt::format("model {} has no version {} that serves: {}", name, version, why));
  };
  if (model.coming && (version.empty() || version == std::to_string(model.coming->number)))
    return missing(Errc::unavailable, "it is being loaded");
  for (const auto& ending : model.ending)
    if (version == ending->facts().version)
      return missing(Errc::unavailable, "it is being unloaded");
  if (model.current != nullptr)
    return missing(Errc::not_found, fmt::format("version {} does", model.current->number()));
  return missing(version.empty() ? Errc::unavailable : Errc::not_found, model.reason);
}

// -- what there is --------------------------------------------------------------------------------

bool ModelTable::ready() const {
  const std::shared_lock lock{mutex_};
  for (const auto& [name, model] : models_)
    if (model->wanted && (model->current == nullptr || !model->current->dispatcher()->serves()))
      return false;
  return !closing_;
}

Result<bool> ModelTable::model_ready(std::string_view name, std::string_view version) const {
  const std::shared_lock lock{mutex_};
  GPUACTORS_LET(model, find(name));
  const auto found = find_version(*model, version);
  if (found)
    return !closing_ && (*found)->dispatcher()->serves();
  if (found.error().code() == Errc::not_found)
    return gpuactors::fail(found.error());
  return false;
}

Result<bool> ModelTable::generative(std::string_view model, std::string_view version, const SequenceStep& step) const {
  GPUACTORS_LET(found, route(model, version, step));
  return found.dispatcher->facts().generative;
}

Result<ModelDescription> ModelTable::describe(std::string_view name, std::string_view version,
                                              const SequenceStep& step) const {
  const std::shared_lock lock{mutex_};
  GPUACTORS_LET(model, find(name));
  auto goes_to = find_sequence(*model, version, step);
  if (goes_to == nullptr) {
    GPUACTORS_LET(found, find_version(*model, version));
    goes_to = found->dispatcher();
  }
  const auto& dispatcher = *goes_to;
  const auto& facts = dispatcher.facts();
  ModelDescription result;
  result.name = facts.name;
  for (const auto* one : model->serving())
    if (one->number() != facts.version)
      result.versions.push_back(one->number());
  result.versions.push_back(facts.version);
  result.platform = facts.platform;
  for (const auto& input : facts.inputs)
    result.inputs.push_back({input.name, input.type, input.shape_for_clients()});
  for (const auto& output : facts.outputs)
    result.outputs.push_back({output.name, output.type, output.shape_for_clients()});
  result.generative = facts.generative;
  result.max_batch = facts.generative ? 0 : dispatcher.limits().max_batch;
  result.max_running = facts.generative ? dispatcher.max_running() : 0;
  result.max_queue = dispatcher.limits().max_requests;
  result.default_timeout = model->terms_of(dispatcher).timeout;
  result.replicas = dispatcher.replicas();
  result.gpus = model->terms_of(dispatcher).gpus;
  return result;
}

Result<std::vector<ModelStatistics>> ModelTable::statistics(std::string_view name, std::string_view version) const {
  const std::shared_lock lock{mutex_};
  std::vector<ModelStatistics> result;
  if (!name.empty()) {
    GPUACTORS_LET(model, find(name));
    GPUACTORS_LET(found, find_version(*model, version));
    if (!version.empty())
      return std::vector{found->dispatcher()->snapshot().statistics};
  }
  for (const auto& [known, model] : models_)
    for (const auto* one : model->serving())
      if (name.empty() || name == known)
        result.push_back(one->dispatcher()->snapshot().statistics);
  return result;
}

std::vector<RepositoryEntry> ModelTable::repository() const {
  const std::shared_lock lock{mutex_};
  std::vector<RepositoryEntry> result;
  for (const auto& [name, model] : models_) {
    for (const auto* one : model->serving()) {
      const auto why_not = one->dispatcher()->why_not();
      auto reason = why_not;
      if (one == model->current.get()) {
        const auto next = model->why_not_next();
        reason += (reason.empty() || next.empty() ? "" : "; ") + next;
      } else if (reason.empty()) {
        reason = fmt::format("gets {} of the requests", model->split.share());
      }
      result.push_back({name, one->number(), why_not.empty() ? "READY" : "UNAVAILABLE", std::move(reason)});
    }
    if (model->coming)
      result.push_back({name, std::to_string(model->coming->number), "LOADING",
                        model->failed ? "the last try failed: " + cut_text(model->reason, longest_sentence) : ""});
    for (const auto& ending : model->ending)
      result.push_back({name, ending->facts().version, "UNLOADING", "it answers what it has accepted"});
    if (model->current == nullptr && !model->coming && model->ending.empty())
      result.push_back({name, "", "UNAVAILABLE", cut_text(model->reason, longest_sentence)});
  }
  return result;
}

std::string ModelTable::metrics() const {
  std::vector<DispatcherSnapshot> snapshots;
  for (const auto& dispatcher : dispatchers())
    snapshots.push_back(dispatcher->snapshot());
  return render_metrics(snapshots, wanted_models());
}

std::vector<ModelState> ModelTable::wanted_models() const {
  const std::shared_lock lock{mutex_};
  std::vector<ModelState> result;
  for (const auto& [name, model] : models_)
    if (model->wanted)
      result.push_back({name, model->current != nullptr && model->current->dispatcher()->serves()});
  return result;
}

std::vector<std::shared_ptr<Dispatcher>> ModelTable::dispatchers() const {
  const std::shared_lock lock{mutex_};
  std::vector<std::shared_ptr<Dispatcher>> result;
  for (const auto& [name, model] : models_) {
    for (const auto* one : model->serving())
      result.push_back(one->dispatcher());
    result.insert(result.end(), model->ending.begin(), model->ending.end());
  }
  return result;
}

} // namespace serve
