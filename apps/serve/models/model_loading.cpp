// Loading and unloading of a model table's models.
#include "model_table.hpp"

#include <apps/serve/cut_text.hpp>

#include <fmt/format.h>

#include <utility>

namespace serve {

using gpuactors::Clock;
using gpuactors::deadline_after;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

gpuactors::Failure no_more_loads() {
  return gpuactors::fail(Errc::unavailable, "the server ends");
}

/// The key of `path` among the parameters of the repository extension.
constexpr auto path_parameter = "path";

} // namespace

Result<std::optional<std::string>>
ModelTable::requested_path(const std::map<std::string, std::string>& parameters) const {
  std::optional<std::string> result;
  for (const auto& [name, value] : parameters) {
    if (name != path_parameter)
      return gpuactors::fail(
          Errc::invalid_argument,
          fmt::format("load has no parameter \"{}\": there is \"{}\", a file", name, path_parameter));
    if (options_.load_paths.empty())
      return gpuactors::fail(Errc::invalid_argument, "files cannot be named: the server was started without "
                                                     "--allow-load-paths DIR");
    // Links are followed first, so that none leads out of the folder.
    std::error_code error;
    const auto folder = std::filesystem::canonical(options_.load_paths, error);
    const auto file = error ? std::filesystem::path{} : std::filesystem::canonical(folder / value, error);
    const auto inside = error ? std::filesystem::path{} : file.lexically_relative(folder);
    if (error || inside.empty() || *inside.begin() == "..")
      return gpuactors::fail(Errc::invalid_argument, fmt::format("there is no file \"{}\" in the folder that the "
                                                                 "server allows",
                                                                 value));
    result = file.string();
  }
  return result;
}

Result<ModelTable::ModelPtr> ModelTable::find_or_make(std::string_view name, const std::optional<std::string>& path) {
  const std::unique_lock lock{mutex_};
  if (closing_)
    return no_more_loads();
  if (!path || models_.contains(name))
    return find(name);
  GPUACTORS_TRY(check_name(name));
  auto model = std::make_shared<Model>();
  model->config = options_.defaults;
  model->config.name = name;
  model->wanted = false;
  model->by_client = true;
  models_.emplace(std::string{name}, model);
  return model;
}

Result<ModelTable::Locked> ModelTable::lock(std::string_view name, const std::optional<std::string>& path) {
  for (;;) {
    GPUACTORS_LET(model, find_or_make(name, path));
    std::unique_lock loading{model->loading};
    const std::shared_lock lock{mutex_};
    // While it waited for its turn, another may have made the table forget it.
    if (const auto found = models_.find(name); found != models_.end() && found->second == model)
      return Locked{model, std::move(loading)};
  }
}

void ModelTable::forget(const Model& model) {
  if (model.by_client && model.current == nullptr)
    models_.erase(model.config.name);
}

Result<void> ModelTable::load(std::string_view name, const std::map<std::string, std::string>& parameters) {
  GPUACTORS_LET(path, requested_path(parameters));
  GPUACTORS_LET(locked, lock(name, path));
  {
    // Who asks for it wants it tried with all means.
    const std::unique_lock lock{mutex_};
    locked.model->in_vain.reset();
  }
  GPUACTORS_TRY(load_current(*locked.model, path, false));
  // There is a notice if it cannot be loaded, and the model itself is.
  (void)settle_canary(*locked.model, false);
  return {};
}

Result<std::unique_ptr<ModelVersion>> ModelTable::load_version(Model& model, const Loading& what) {
  LoadOptions how;
  how.wait = options_.load_wait;
  how.wait_for_nodes = options_.wait_for_nodes;
  how.longest_silence = options_.longest_silence;
  how.notice = options_.notice;
  how.nodes = nodes_;
  how.deployment = options_.deployment;
  how.takes_over = what.takes_over && !how.deployment.empty();
  how.spared = what.spared;
  how.comes_second = what.beside != nullptr;
  std::uint64_t number = 0;
  std::optional<InVain> in_vain;
  {
    const std::unique_lock lock{mutex_};
    if (closing_)
      return no_more_loads();
    number = ++model.last_number;
    model.coming = {number, how.bell};
    if (model.in_vain && model.in_vain->config == what.config)
      in_vain = model.in_vain;
  }
  const auto in_place = what.config.in_place && !in_vain;
  bool made_room = false;
  if (auto* before = what.before; before != nullptr) {
    how.replicas_before = before->dispatcher()->replicas();
    const auto give_up_one = [this, before, bell = how.bell](bool whole) {
      return before->give_up_one(deadline_after(Clock::now(), options_.drain), whole, *bell);
    };
    how.make_first_room = [&, give_up_one] {
      if (drop_canary(model))
        return true;
      made_room = give_up_one(in_place);
      return made_room;
    };
    // It can serve without this one.
    how.make_room = [this, &model, give_up_one] { return drop_canary(model) || give_up_one(false); };
  }
  auto version = ModelVersion::load(cluster_, what.config, number, how);
  if (version && what.beside != nullptr)
    if (const auto fits = check_beside(what.beside->facts(), (*version)->dispatcher()->facts()); !fits)
      version = gpuactors::fail(fits.error());
  if (version)
    return version;
  auto error = version.error();
  if (what.before != nullptr) {
    if (made_room && in_place && how.replicas_before == 1) {
      const std::unique_lock lock{mutex_};
      model.in_vain = {what.config, cut_text(error.message(), longest_sentence)};
    }
    if (error.code() == Errc::no_capacity && how.replicas_before == 1 && in_vain)
      error = {error.code(), fmt::format("{}; version {} keeps its only replica, which has made room in vain: {}",
                                         error.message(), what.before->number(), in_vain->why)};
    else if (error.code() == Errc::no_capacity && how.replicas_before == 1 && !in_place)
      error = {error.code(), fmt::format("{}; version {} keeps its only replica: make room for another one, unload the "
                                         "model first, or load it with in-place=true",
                                         error.message(), what.before->number())};
    what.before->take_back();
  }
  return note_failure(model, what, error);
}

Result<void> ModelTable::load_current(Model& model, const std::optional<std::string>& path, bool quiet) {
  ModelConfig asked;
  std::optional<CanaryConfig> canary;
  Loading what;
  bool first = false;
  {
    const std::shared_lock lock{mutex_};
    what.config = asked = model.config;
    what.title = fmt::format("model {}", asked.name);
    // Stays where it is: who takes it out locks `loading`, too.
    what.before = model.current.get();
    if (model.has_right_canary())
      what.beside = model.canary->dispatcher();
    canary = model.wanted_canary;
    first = model.last_number == 0 && !model.by_client;
  }
  if (path)
    what.config.file = *path;
  what.quiet = quiet || first;
  what.takes_over = what.before == nullptr;
  if (what.takes_over && canary && !options_.deployment.empty())
    if (const auto mark = ModelVersion::mark_for(cluster_, canary->config))
      what.spared = *mark;
  GPUACTORS_LET(version, load_version(model, what));
  const auto number = version->number();
  std::unique_ptr<ModelVersion> old;
  std::unique_ptr<ModelVersion> unfit;
  std::string before;
  std::string beside;
  {
    const std::unique_lock lock{mutex_};
    model.coming.reset();
    if (closing_)
      return no_more_loads(); // the new one ends with this call
    old = std::exchange(model.current, std::move(version));
    model.wanted = true;
    model.failed = false;
    model.in_vain.reset();
    if (model.by_client)
      model.config.file = asked.file = what.config.file;
    const auto old_config = std::exchange(model.current_config, std::move(asked));
    if (what.takes_over)
      model.spares = !what.spared.empty();
    unfit = take_unfit_canary(model);
    before = old != nullptr ? old->number() : "";
    if (becomes_canary(model, old, old_config))
      beside = fmt::format("{}: version {} serves beside version {}, and gets {} of the requests", what.title, before,
                           number, model.split.share());
    else if (old != nullptr)
      model.ending.push_back(old->dispatcher());
  }
  if (!before.empty())
    options_.notice(fmt::format("{}: version {} serves in the place of version {}", what.title, number, before));
  else if (!first)
    options_.notice(fmt::format("{}: version {} serves", what.title, number));
  if (!beside.empty())
    options_.notice(beside);
  const auto until = deadline_after(Clock::now(), options_.drain);
  if (unfit != nullptr)
    options_.notice(fmt::format("{} is unloaded", unfit->dispatcher()->facts().title));
  end(model, std::move(old), until, true);
  end(model, std::move(unfit), until, true);
  return {};
}

gpuactors::Failure ModelTable::note_failure(Model& model, const Loading& what, const gpuactors::Error& error) {
  auto sentence = fmt::format("{} could not be loaded: {}", what.title, error.message());
  bool closing = false;
  {
    const std::unique_lock lock{mutex_};
    model.coming.reset();
    if (model.current == nullptr) {
      model.reason = error.message();
      model.failed = true;
    } else {
      auto& in_vain = what.before != nullptr ? model.next_in_vain : model.canary_in_vain;
      in_vain = {what.config, cut_text(error.message(), longest_sentence)};
    }
    forget(model);
    closing = closing_;
  }
  if (!what.quiet && !closing)
    options_.notice(sentence);
  return gpuactors::fail(error.code(), std::move(sentence));
}

Result<void> ModelTable::unload(std::string_view name) {
  GPUACTORS_LET(locked, lock(name, std::nullopt));
  const auto& model = locked.model;
  std::vector<std::unique_ptr<ModelVersion>> last;
  {
    const std::unique_lock lock{mutex_};
    last = take_versions(*model);
    model->wanted = false;
    model->reason = "it was unloaded";
    model->failed = false;
  }
  const auto until = deadline_after(Clock::now(), options_.drain);
  for (auto& version : last) {
    options_.notice(fmt::format("{} is unloaded", version->dispatcher()->facts().title));
    end(*model, std::move(version), until);
  }
  end_spared(*model);
  const std::unique_lock lock{mutex_};
  forget(*model);
  return {};
}

Result<void> ModelTable::remove(std::string_view name) {
  {
    const std::unique_lock lock{mutex_};
    GPUACTORS_LET(model, find(name));
    model->by_client = true;
  }
  return unload(name);
}

} // namespace serve
