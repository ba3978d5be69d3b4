// Loading and unloading of a model table's models.
#include "model_table.hpp"

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
  return load_version(*locked.model, path, false);
}

Result<void> ModelTable::settle(std::string_view name) {
  GPUACTORS_LET(locked, lock(name, std::nullopt));
  return is_missing(name) ? load_version(*locked.model, std::nullopt, true) : Result<void>{};
}

Result<void> ModelTable::load_version(Model& model, const std::optional<std::string>& path, bool quiet) {
  ModelConfig asked;
  LoadOptions how;
  how.wait = options_.load_wait;
  how.wait_for_nodes = options_.wait_for_nodes;
  how.longest_silence = options_.longest_silence;
  how.notice = options_.notice;
  how.nodes = nodes_;
  how.deployment = options_.deployment;
  std::uint64_t number = 0;
  bool first = false;
  ModelVersion* before = nullptr;
  {
    const std::unique_lock lock{mutex_};
    if (closing_)
      return no_more_loads();
    asked = model.config;
    number = ++model.last_number;
    first = number == 1 && !model.by_client;
    model.coming = {number, how.bell};
    // Stays where it is: who takes it out locks `loading`, too.
    before = model.current.get();
  }
  how.takes_over = before == nullptr && !how.deployment.empty();
  if (before != nullptr) {
    how.replicas_before = before->dispatcher()->replicas();
    how.make_room = [this, before, bell = how.bell] {
      return before->give_up_one(deadline_after(Clock::now(), options_.drain), *bell);
    };
  }
  auto config = asked;
  if (path)
    config.file = *path;
  auto version = ModelVersion::load(cluster_, config, number, how);
  if (!version) {
    auto error = version.error();
    if (before != nullptr) {
      if (error.code() == Errc::no_capacity && how.replicas_before == 1)
        error = {error.code(),
                 fmt::format("{}; version {} keeps its only replica: make room for another one, or unload "
                             "the model first",
                             error.message(), before->number())};
      before->take_back();
    }
    return note_failure(model, error, quiet || first);
  }
  std::unique_ptr<ModelVersion> old;
  {
    const std::unique_lock lock{mutex_};
    model.coming.reset();
    if (closing_)
      return no_more_loads(); // the new one ends with this call
    old = std::exchange(model.current, std::move(*version));
    model.wanted = true;
    if (model.by_client)
      model.config.file = asked.file = config.file;
    model.current_config = std::move(asked);
    if (old != nullptr)
      model.ending.push_back(old->dispatcher());
  }
  if (old != nullptr)
    options_.notice(
        fmt::format("model {}: version {} serves in the place of version {}", config.name, number, old->number()));
  else if (!first)
    options_.notice(fmt::format("model {}: version {} serves", config.name, number));
  end(model, std::move(old), deadline_after(Clock::now(), options_.drain), true);
  return {};
}

Result<void> ModelTable::note_failure(Model& model, const gpuactors::Error& error, bool quiet) {
  auto sentence = fmt::format("model {} could not be loaded: {}", model.config.name, error.message());
  bool closing = false;
  {
    const std::unique_lock lock{mutex_};
    model.coming.reset();
    if (model.current == nullptr)
      model.reason = error.message();
    forget(model);
    closing = closing_;
  }
  if (!quiet && !closing)
    options_.notice(sentence);
  return gpuactors::fail(error.code(), std::move(sentence));
}

Result<void> ModelTable::unload(std::string_view name) {
  GPUACTORS_LET(locked, lock(name, std::nullopt));
  const auto& model = locked.model;
  std::unique_ptr<ModelVersion> last;
  {
    const std::unique_lock lock{mutex_};
    last = std::move(model->current);
    model->wanted = false;
    model->reason = "it was unloaded";
    if (last != nullptr)
      model->ending.push_back(last->dispatcher());
  }
  if (last != nullptr)
    options_.notice(fmt::format("{} is unloaded", last->dispatcher()->facts().title));
  end(*model, std::move(last), deadline_after(Clock::now(), options_.drain));
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
