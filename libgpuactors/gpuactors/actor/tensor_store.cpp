#include <gpuactors/actor/detail/tensor_table.hpp>
#include <gpuactors/actor/tensor_store.hpp>
#include <gpuactors/device/shape.hpp>

#include <fmt/format.h>

#include <system_error>

namespace gpuactors {

using detail::TensorEntry;
using detail::TensorTable;

TensorStore::TensorStore(std::optional<TensorLinks> links)
  : links_(std::move(links)), table_(std::make_shared<TensorTable>(
                                  links_ && links_->shares_memory ? RegionReaders::machine : RegionReaders::process)) {
  // nop
}

TensorStore::~TensorStore() {
  close();
}

// -- start and end --------------------------------------------------------------------------------

Result<void> TensorStore::start() {
  const std::lock_guard lock{mutex_};
  if (closed_)
    return fail(Errc::unavailable, "the store of shared tensors is closed");
  if (started_)
    return {};
  GPUACTORS_TRY(table_->start());
  if (links_ && server_ == nullptr) // else it failed for want of a thread when it was here before
    GPUACTORS_TRY(connect());
  try {
    keeper_ = std::thread{[table = table_] { table->keep_time(); }};
  } catch (const std::system_error& error) {
    return fail(Errc::unavailable, fmt::format("the store of shared tensors has no thread: {}", error.what()));
  }
  started_ = true;
  return {};
}

Result<void> TensorStore::connect() {
  BulkClientOptions fetching;
  fetching.certificates = links_->certificates;
  fetching.local = links_->shares_memory;
  fetching.pool = table_->pool();
  GPUACTORS_LET(client, BulkClient::create(std::move(fetching)));
  BulkServerOptions serving;
  serving.listening = links_->listening;
  serving.certificates = links_->certificates;
  serving.local = links_->shares_memory;
  serving.source = table_;
  GPUACTORS_LET(server, BulkServer::start(std::move(serving)));
  table_->set_address(to_string(server->address()));
  client_ = std::move(client);
  server_ = std::move(server);
  return {};
}

void TensorStore::close() {
  const std::lock_guard lock{mutex_};
  closed_ = true;
  if (client_ != nullptr)
    client_->close();
  if (server_ != nullptr)
    server_->close();
  table_->close();
  if (keeper_.joinable())
    keeper_.join();
}

// -- drafts ---------------------------------------------------------------------------------------

TensorDraft::TensorDraft(std::shared_ptr<TensorTable> table, RegionDraft region, DType dtype,
                         std::vector<std::int64_t> shape)
  : table_(std::move(table)), region_(std::move(region)), dtype_(dtype), shape_(std::move(shape)) {
  // nop
}

Result<void> TensorDraft::check(DType wanted) const {
  if (wanted == dtype_)
    return {};
  return fail(Errc::invalid_argument, fmt::format("the tensor holds {}, not {}", to_string(dtype_), to_string(wanted)));
}

Shared<Tensor> TensorDraft::share() && {
  auto entry = std::make_shared<TensorEntry>();
  entry->dtype = dtype_;
  entry->shape = std::move(shape_);
  entry->bytes = region_.size();
  entry->region = std::move(region_).seal();
  return Shared<Tensor>{table_->add(std::move(entry))};
}

Result<TensorDraft> TensorStore::draft(DType dtype, std::vector<std::int64_t> shape) {
  GPUACTORS_LET(bytes, detail::shared_bytes(dtype, shape));
  GPUACTORS_TRY(start());
  GPUACTORS_LET(region, table_->make(bytes));
  return TensorDraft{table_, std::move(region), dtype, std::move(shape)};
}

// -- put ------------------------------------------------------------------------------------------

Result<Shared<Tensor>> TensorStore::put(Tensor tensor, Stream& stream) {
  if (!tensor)
    return fail(Errc::invalid_argument, "there is no tensor to put: it is empty, moved from or reclaimed");
  GPUACTORS_TRY(start());
  GPUACTORS_TRY(stream.synchronize());
  return add(std::move(tensor), stream, nullptr);
}

Result<Shared<Tensor>> TensorStore::put_queued(Tensor tensor, Stream& stream) {
  if (!tensor)
    return fail(Errc::invalid_argument, "there is no tensor to put: it is empty, moved from or reclaimed");
  GPUACTORS_TRY(start());
  GPUACTORS_LET(mark, stream.mark());
  auto coming = std::make_shared<detail::Coming>(std::move(mark));
  GPUACTORS_TRY(stream.notify([coming](Result<void> outcome) { coming->set(std::move(outcome)); }));
  return add(std::move(tensor), stream, std::move(coming));
}

Shared<Tensor> TensorStore::add(Tensor tensor, Stream& stream, std::shared_ptr<detail::Coming> coming) {
  auto entry = std::make_shared<TensorEntry>();
  entry->dtype = tensor.dtype();
  entry->shape = tensor.shape();
  entry->bytes = tensor.bytes();
  entry->device = stream.context().device_handle();
  entry->tensor = std::move(tensor);
  entry->coming = std::move(coming);
  return Shared<Tensor>{table_->add(std::move(entry))};
}

Result<Shared<Tensor>> TensorStore::put_copy(const void* values, std::size_t count, DType dtype,
                                             std::vector<std::int64_t> shape) {
  GPUACTORS_LET(bytes, detail::shared_bytes(dtype, shape));
  if (bytes / size_of(dtype) != count)
    return fail(Errc::invalid_argument, fmt::format("{} values do not fill a tensor of shape {}, which has {}", count,
                                                    detail::format_shape(shape), bytes / size_of(dtype)));
  GPUACTORS_TRY(start());
  auto entry = std::make_shared<TensorEntry>();
  GPUACTORS_LET(region, table_->copy(values, bytes));
  entry->dtype = dtype;
  entry->shape = std::move(shape);
  entry->bytes = bytes;
  entry->region = std::move(region);
  return Shared<Tensor>{table_->add(std::move(entry))};
}

Result<Shared<Tensor>> TensorStore::put_copy(const Tensor& tensor, Stream& stream) {
  if (!tensor)
    return fail(Errc::invalid_argument, "there is no tensor to put: it is empty, moved from or reclaimed");
  GPUACTORS_LET(made, draft(tensor.dtype(), tensor.shape()));
  GPUACTORS_TRY(stream.download(made.bytes().data(), tensor.raw(), tensor.bytes()));
  GPUACTORS_TRY(stream.synchronize());
  return std::move(made).share();
}

// -- get ------------------------------------------------------------------------------------------

Result<Shared<Tensor>> TensorStore::get(const v1::TensorRef& ref, Duration timeout) {
  if (ref.store() != table_->identity()) {
    GPUACTORS_LET(fetched, fetch(ref, deadline_after(Clock::now(), timeout)));
    return Shared<Tensor>{std::move(fetched)};
  }
  auto entry = table_->take(ref.id(), ref.hand_over());
  if (entry == nullptr)
    return fail(Errc::not_found, fmt::format("tensor {} is gone: nobody holds it any more", ref.id()));
  return Shared<Tensor>{std::move(entry)};
}

Result<std::shared_ptr<TensorEntry>> TensorStore::fetch(const v1::TensorRef& ref, TimePoint deadline) {
  if (!links_ || ref.address().empty())
    return fail(Errc::not_found, fmt::format("tensor {} was put by another process, {}", ref.id(),
                                             links_ ? "which serves nobody" : "and this one is connected to none"));
  const auto dtype = static_cast<DType>(ref.dtype());
  std::vector<std::int64_t> shape(ref.shape().begin(), ref.shape().end());
  GPUACTORS_LET(bytes, detail::shared_bytes(dtype, shape));
  GPUACTORS_LET(address, parse_bulk_address(ref.address()));
  GPUACTORS_TRY(start());
  const detail::TensorName name{ref.store(), ref.id(), ref.address()};
  GPUACTORS_LET(known, table_->begin_fetch(name, deadline));
  if (known != nullptr) {
    if (ref.hand_over() != 0)
      client_->taken(address, ref.id(), ref.hand_over(), deadline);
    return known;
  }
  auto entry = std::make_shared<TensorEntry>();
  entry->dtype = dtype;
  entry->shape = std::move(shape);
  entry->bytes = bytes;
  entry->origin = name;
  std::shared_ptr<detail::Descriptor> line;
  OpenDevice open;
  // Asks for device memory only if this process can open it, because the owner makes a copy for that.
  if (auto devices = devices_for(ref.device()); !devices.empty())
    open = [&, devices = std::move(devices)](int memory, std::shared_ptr<detail::Descriptor> end) {
      line = open_on_device(*entry, devices, ref.device(), memory, std::move(end));
      return line != nullptr;
    };
  auto region = client_->fetch(address, ref.id(), bytes, deadline, ref.hand_over(), std::move(open));
  if (!region) {
    table_->arrived(name, nullptr);
    return fail(region.error());
  }
  entry->region = std::move(*region);
  // From here on, the fetched tensor belongs to this process and is served to others like all its tensors.
  entry = table_->add(std::move(entry));
  if (entry->borrowed)
    table_->borrow(entry, std::move(line));
  table_->arrived(name, entry);
  return entry;
}

std::vector<std::shared_ptr<Device>> TensorStore::devices_for(const std::string& uuid) const {
  std::vector<std::shared_ptr<Device>> result;
  if (uuid.empty())
    return result;
  const std::lock_guard lock{devices_mutex_};
  for (const auto& device : devices_) {
    // A device that is not open is skipped: creating a context on it would take longer than a copy through the host.
    const bool open = device->is_open();
    if (device->info().uuid == uuid)
      return open ? std::vector{device} : std::vector<std::shared_ptr<Device>>{};
    if (open)
      result.push_back(device);
  }
  return result;
}

std::shared_ptr<detail::Descriptor> TensorStore::open_on_device(TensorEntry& entry,
                                                                const std::vector<std::shared_ptr<Device>>& devices,
                                                                const std::string& uuid, int memory,
                                                                std::shared_ptr<detail::Descriptor> line) {
  for (const auto& device : devices) {
    auto opened = device->open_shared_memory(memory, entry.bytes);
    if (!opened)
      continue;
    // The line stays open until the memory is unmapped: its end tells the owner that nobody reads any more.
    struct Held {
      std::shared_ptr<detail::Descriptor> line;
      std::shared_ptr<SharedMemory> memory;
    };
    auto* const address = opened->get();
    auto held = std::make_shared<Held>(Held{line, std::move(*opened)});
    entry.near = device->info().uuid == uuid;
    entry.device = device;
    entry.opened = std::shared_ptr<SharedMemory>{std::move(held), address};
    entry.borrowed = true;
    return line;
  }
  return nullptr;
}

void TensorStore::use_devices(const std::vector<std::shared_ptr<Device>>& devices) {
  const std::lock_guard lock{devices_mutex_};
  devices_.insert(devices_.end(), devices.begin(), devices.end());
}

std::size_t TensorStore::size() const {
  return table_->size();
}

} // namespace gpuactors
