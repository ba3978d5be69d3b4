// What a model of the models file should be, and how it comes to that: a version, and a canary beside it.
#include "deployment.hpp"
#include "model_table.hpp"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

namespace serve {

using gpuactors::Clock;
using gpuactors::deadline_after;
using gpuactors::Result;

bool ModelTable::Model::has_right_canary() const {
  return canary != nullptr && wanted_canary && wanted_canary->config == canary_config;
}

bool ModelTable::Model::canary_takes_over() const {
  return canary != nullptr && canary_config == config && current_config != config;
}

bool ModelTable::Model::spares_in_vain() const {
  return spares && (canary != nullptr || !wanted_canary || !wanted);
}

bool ModelTable::Model::is_settled() const {
  return current != nullptr && current_config == config && (wanted_canary ? has_right_canary() : canary == nullptr)
         && !spares_in_vain();
}

std::string ModelTable::Model::why_not_next() const {
  if (!wanted)
    return {};
  // What failed may have been something else, such as a file that a client has named.
  if (current_config != config && next_in_vain && next_in_vain->config == config)
    return fmt::format("the next version could not be loaded, and is tried again: {}", next_in_vain->why);
  if (wanted_canary && !has_right_canary() && canary_in_vain && canary_in_vain->config == wanted_canary->config)
    return fmt::format("its canary could not be loaded, and is tried again: {}", canary_in_vain->why);
  return {};
}

void ModelTable::set(const ModelEntry& entry) {
  std::string text;
  {
    const std::unique_lock lock{mutex_};
    auto& model = models_[entry.config.name];
    if (model == nullptr)
      model = std::make_shared<Model>();
    if (entry.config != model->config) {
      model->in_vain.reset();
      model->next_in_vain.reset();
    }
    if (!entry.canary || !model->wanted_canary || entry.canary->config != model->wanted_canary->config)
      model->canary_in_vain.reset();
    model->config = entry.config;
    model->wanted_canary = entry.canary;
    model->wanted = true;
    model->by_client = false;
    const auto before = model->split.share();
    if (model->has_right_canary())
      model->split.set(entry.canary->share);
    else if (!model->canary_takes_over())
      model->split.set(0); // nobody wants it any more
    if (model->canary != nullptr && model->split.share() != before)
      text = fmt::format("model {}: version {} gets {} of the requests", entry.config.name, model->canary->number(),
                         model->split.share());
  }
  if (!text.empty())
    options_.notice(text);
}

bool ModelTable::is_missing(std::string_view name) const {
  const std::shared_lock lock{mutex_};
  const auto found = models_.find(name);
  return !closing_ && found != models_.end() && found->second->wanted && !found->second->is_settled();
}

Result<void> ModelTable::settle(std::string_view name) {
  GPUACTORS_LET(locked, lock(name, std::nullopt));
  if (!is_missing(name))
    return {};
  auto& model = *locked.model;
  promote(model);
  bool changed = false;
  {
    const std::shared_lock lock{mutex_};
    changed = model.current == nullptr || model.current_config != model.config;
  }
  const auto loaded = changed ? load_current(model, std::nullopt, true) : Result<void>{};
  // Also where the model itself keeps its version: a canary that nobody wants goes all the same.
  const auto settled = settle_canary(model, true);
  return loaded ? settled : loaded;
}

void ModelTable::promote(Model& model) {
  std::string text;
  {
    const std::unique_lock lock{mutex_};
    if (model.current == nullptr || !model.canary_takes_over())
      return;
    text = fmt::format("model {}: version {} serves in the place of version {}", model.config.name,
                       model.canary->number(), model.current->number());
    std::swap(model.current, model.canary);
    std::swap(model.current_config, model.canary_config);
    model.split.restart(model.has_right_canary() ? model.wanted_canary->share : 0);
  }
  options_.notice(text);
}

bool ModelTable::drop_canary(Model& model) {
  std::unique_ptr<ModelVersion> old;
  {
    const std::unique_lock lock{mutex_};
    if (model.canary == nullptr || model.has_right_canary())
      return false;
    old = std::move(model.canary);
    model.ending.push_back(old->dispatcher());
  }
  options_.notice(fmt::format("{} is unloaded", old->dispatcher()->facts().title));
  end(model, std::move(old), deadline_after(Clock::now(), options_.drain), true);
  return true;
}

Result<void> ModelTable::settle_canary(Model& model, bool quiet) {
  drop_canary(model);
  end_spared(model);
  Loading what;
  {
    const std::shared_lock lock{mutex_};
    if (!model.wanted_canary || model.canary != nullptr || model.current == nullptr)
      return {};
    what.config = model.wanted_canary->config;
    what.beside = model.current->dispatcher();
    what.title = fmt::format("the canary of model {}", model.config.name);
    what.takes_over = model.spares;
  }
  what.spared = model.current->mark();
  what.quiet = quiet;
  GPUACTORS_LET(version, load_version(model, what));
  double share = 0;
  {
    const std::unique_lock lock{mutex_};
    model.coming.reset();
    if (closing_)
      return gpuactors::fail(gpuactors::Errc::unavailable, "the server ends"); // the new one ends with this call
    model.canary = std::move(version);
    model.canary_config = what.config;
    model.spares = false; // taken over, or ended with that
    // Another one may be wanted by now.
    share = model.has_right_canary() ? model.wanted_canary->share : 0;
    model.split.restart(share);
  }
  options_.notice(fmt::format("model {}: version {} serves beside version {}, and gets {} of the requests",
                              what.config.name, model.canary->number(), model.current->number(), share));
  return {};
}

void ModelTable::end_spared(Model& model) {
  std::set<std::string> marks;
  {
    const std::unique_lock lock{mutex_};
    if (closing_ || !model.spares_in_vain())
      return;
    for (const auto* version : model.serving())
      marks.insert(version->mark());
  }
  const auto closes = [this] {
    const std::shared_lock lock{mutex_};
    return closing_;
  };
  const auto ended = end_left(cluster_, options_.deployment, model.config.name, marks, closes);
  if (!ended)
    return; // tried again with the next look at the model
  const std::unique_lock lock{mutex_};
  model.spares = false;
}

std::unique_ptr<ModelVersion> ModelTable::take_unfit_canary(Model& model) {
  if (model.canary == nullptr)
    return nullptr;
  const auto belongs = model.has_right_canary() || model.canary_takes_over();
  if (belongs && check_beside(model.current->dispatcher()->facts(), model.canary->dispatcher()->facts()))
    return nullptr;
  model.ending.push_back(model.canary->dispatcher());
  return std::move(model.canary);
}

bool ModelTable::becomes_canary(Model& model, std::unique_ptr<ModelVersion>& old, const ModelConfig& old_config) {
  if (old == nullptr || model.canary != nullptr || !model.wanted_canary || model.wanted_canary->config != old_config
      || old_config == model.current_config
      || !check_beside(model.current->dispatcher()->facts(), old->dispatcher()->facts()))
    return false;
  old->take_back(); // the replicas that it has given up are wanted again
  model.canary = std::move(old);
  model.canary_config = old_config;
  model.split.restart(model.wanted_canary->share);
  return true;
}

} // namespace serve
