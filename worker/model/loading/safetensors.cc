#include "worker/model/loading/safetensors.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "common/json/json_node.h"

namespace roost::worker {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20U;

struct DTypeRow {
  std::string_view name;
  TensorDType dtype;
  std::uint64_t bytes;
};

constexpr std::array<DTypeRow, 15> kDTypes{{{"F32", TensorDType::kF32, 4},
                                            {"F16", TensorDType::kF16, 2},
                                            {"BF16", TensorDType::kBF16, 2},
                                            {"I32", TensorDType::kI32, 4},
                                            {"I64", TensorDType::kI64, 8},
                                            {"F64", TensorDType::kOther, 8},
                                            {"U64", TensorDType::kOther, 8},
                                            {"U32", TensorDType::kOther, 4},
                                            {"I16", TensorDType::kOther, 2},
                                            {"U16", TensorDType::kOther, 2},
                                            {"I8", TensorDType::kOther, 1},
                                            {"U8", TensorDType::kOther, 1},
                                            {"BOOL", TensorDType::kOther, 1},
                                            {"F8_E4M3", TensorDType::kOther, 1},
                                            {"F8_E5M2", TensorDType::kOther, 1}}};

// Parses one tensor's entry; errors name the file and the tensor.
class EntryParser {
 public:
  EntryParser(std::string_view name, const std::string& file) : name_(name), file_(file) {}

  Result<TensorInfo> Parse(simdjson::dom::element entry) {
    simdjson::dom::object object;
    if (entry.get(object) != simdjson::SUCCESS) return Complain("its entry must be an object");
    TensorInfo info;
    ROOST_ASSIGN_OR_RETURN(const std::uint64_t element_bytes, ParseDType(object, info));
    ROOST_ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseShape(object, element_bytes, info));
    ROOST_RETURN_IF_ERROR(ParseOffsets(object, info));
    if (info.end - info.begin != bytes) {
      return Complain(fmt::format("data_offsets span {} bytes, {} {} needs {}", info.end - info.begin, info.dtype_name,
                                  info.ShapeText(), bytes));
    }
    return info;
  }

  [[nodiscard]] Error Complain(std::string_view message) const {
    return DataLoss(file_, "tensor '{}': {}", name_, message);
  }

 private:
  Result<std::uint64_t> ParseDType(simdjson::dom::object object, TensorInfo& info) const {
    std::string_view name;
    if (object.at_key("dtype").get(name) != simdjson::SUCCESS) return Complain("has no dtype");
    const auto* row =
        std::find_if(kDTypes.begin(), kDTypes.end(), [name](const DTypeRow& known) { return known.name == name; });
    if (row == kDTypes.end()) return Complain(fmt::format("dtype '{}' is unknown", name.substr(0, 40)));
    info.dtype = row->dtype;
    info.dtype_name = name;
    return row->bytes;
  }

  // The tensor's size in bytes.
  Result<std::uint64_t> ParseShape(simdjson::dom::object object, std::uint64_t element_bytes, TensorInfo& info) const {
    simdjson::dom::array shape;
    if (object.at_key("shape").get(shape) != simdjson::SUCCESS) return Complain("has no shape");
    std::uint64_t bytes = element_bytes;
    for (const simdjson::dom::element dim : shape) {
      std::uint64_t size = 0;
      if (dim.get(size) != simdjson::SUCCESS) return Complain("shape must hold counts");
      if (info.shape.size() == kMaxTensorDims) return Complain("has too many dimensions");
      if (__builtin_mul_overflow(bytes, size, &bytes)) return Complain("shape overflows");
      info.shape.push_back(size);
    }
    return bytes;
  }

  Result<void> ParseOffsets(simdjson::dom::object object, TensorInfo& info) const {
    simdjson::dom::array offsets;
    const bool pair = object.at_key("data_offsets").get(offsets) == simdjson::SUCCESS && offsets.size() == 2;
    if (!pair || offsets.at(0).get(info.begin) != simdjson::SUCCESS ||
        offsets.at(1).get(info.end) != simdjson::SUCCESS || info.begin > info.end) {
      return Complain("data_offsets must be two ascending offsets");
    }
    return {};
  }

  std::string_view name_;
  const std::string& file_;
};

// Checks that the tensors tile the data: each begins where the one before ends, and the last ends with the file.
Result<void> CheckLayout(const TensorTable& tensors, std::uint64_t data_bytes, const std::string& file) {
  std::vector<const TensorTable::value_type*> order;
  for (const auto& entry : tensors) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::uint64_t end = 0;
  for (const auto* entry : order) {
    const EntryParser at(entry->first, file);
    if (entry->second.begin < end) return at.Complain("overlaps another tensor");
    if (entry->second.begin > end)
      return at.Complain(fmt::format("lies after a hole of {} bytes", entry->second.begin - end));
    end = entry->second.end;
    if (end > data_bytes) {
      return at.Complain(fmt::format("the file is truncated: its data ends at byte {} of {}", end, data_bytes));
    }
  }
  if (end != data_bytes) return DataLoss(file, "{} bytes after the last tensor", data_bytes - end);
  return {};
}

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

}  // namespace

std::string TensorInfo::ShapeText() const { return fmt::format("{}", shape); }

Result<TensorTable> ParseSafetensorsHeader(std::string_view header, std::uint64_t data_bytes, const std::string& file) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::error_code error = parser.allocate(header.size() + 1, JsonFile::kMaxDepth);
  if (error == simdjson::SUCCESS) error = parser.parse(header.data(), header.size()).get(root);
  simdjson::dom::object entries;
  if (error == simdjson::SUCCESS) error = root.get(entries);
  if (error != simdjson::SUCCESS) {
    return DataLoss(file, "the header is not a JSON object: {}", simdjson::error_message(error));
  }
  TensorTable tensors;
  for (const simdjson::dom::key_value_pair entry : entries) {
    if (entry.key == "__metadata__") continue;
    EntryParser entry_parser(entry.key, file);
    ROOST_ASSIGN_OR_RETURN(TensorInfo info, entry_parser.Parse(entry.value));
    if (!tensors.emplace(entry.key, std::move(info)).second) return entry_parser.Complain("stands twice");
  }
  ROOST_RETURN_IF_ERROR(CheckLayout(tensors, data_bytes, file));
  return tensors;
}

Result<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::Open(const std::filesystem::path& path) {
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile(path.string()));
  ROOST_RETURN_IF_ERROR(file->Map());
  ROOST_RETURN_IF_ERROR(file->ReadHeader());
  return std::shared_ptr<const SafetensorsFile>(std::move(file));
}

SafetensorsFile::~SafetensorsFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());  // NOLINT: munmap's signature
}

Result<void> SafetensorsFile::Map() {
  // O_NONBLOCK does nothing to a regular file; without it, a FIFO would wait for a writer.
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int reason = errno;
    return Error{reason == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument,
                 fmt::format("can not be opened: {}", std::generic_category().message(reason)), path_};
  }
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = regular ? static_cast<std::size_t>(status.st_size) : 0;
  void* memory = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
  ::close(descriptor);
  if (!regular) return InvalidArgument(path_, "is not a regular file");
  if (memory == MAP_FAILED) return DataLoss(path_, "can not be mapped: it has {} bytes", size);
  bytes_ = {static_cast<const std::byte*>(memory), size};
  return {};
}

Result<void> SafetensorsFile::ReadHeader() {
  if (bytes_.size() < kLengthBytes) return DataLoss(path_, "is truncated: {} bytes", bytes_.size());
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    header_bytes_ |= std::to_integer<std::uint64_t>(bytes_[i]) << (8 * i);
  }
  if (header_bytes_ > kMaxSafetensorsHeaderBytes) {
    return DataLoss(path_, "claims a header of {} bytes, at most {} are allowed", header_bytes_,
                    kMaxSafetensorsHeaderBytes);
  }
  if (header_bytes_ > bytes_.size() - kLengthBytes) {
    return DataLoss(path_, "is truncated: its header has {} bytes, the file {}", header_bytes_, bytes_.size());
  }
  ROOST_ASSIGN_OR_RETURN(tensors_,
                         ParseSafetensorsHeader(header(), bytes_.size() - kLengthBytes - header_bytes_, path_));
  return {};
}

std::string_view SafetensorsFile::header() const {
  return {reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes, header_bytes_};
}

std::span<const std::byte> SafetensorsFile::Data(const TensorInfo& tensor) const {
  return bytes_.subspan(kLengthBytes + header_bytes_ + tensor.begin, tensor.end - tensor.begin);
}

Result<SafetensorsDirectory> SafetensorsDirectory::Open(const std::filesystem::path& directory) {
  SafetensorsDirectory result;
  const auto index = directory / "model.safetensors.index.json";
  const auto single = directory / "model.safetensors";
  if (!std::filesystem::exists(single) && std::filesystem::exists(index)) {
    ROOST_RETURN_IF_ERROR(result.OpenShards(directory, index));
    return result;
  }
  result.source_ = single.string();
  ROOST_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(single));
  for (const auto& entry : file->tensors()) result.file_of_.emplace(entry.first, file.get());
  result.files_.push_back(std::move(file));
  return result;
}

Result<void> SafetensorsDirectory::OpenShards(const std::filesystem::path& directory,
                                              const std::filesystem::path& index) {
  source_ = index.string();
  ROOST_ASSIGN_OR_RETURN(const JsonFile json, JsonFile::Load(index, kMaxIndexBytes));
  ROOST_ASSIGN_OR_RETURN(const auto map, json.root().Object("weight_map"));
  if (!map) return json.root().Complain("weight_map", "is missing");
  simdjson::dom::object entries;
  ROOST_CHECK(json.root().Member("weight_map")->get(entries) == simdjson::SUCCESS);
  std::map<std::string, std::shared_ptr<const SafetensorsFile>, std::less<>> shards;
  for (const simdjson::dom::key_value_pair entry : entries) {
    std::string_view name;
    if (entry.value.get(name) != simdjson::SUCCESS || !IsPlainFileName(name)) {
      return map->Complain(entry.key, "must be the name of a file beside the index");
    }
    auto& shard = shards[std::string(name)];
    if (shard == nullptr) {
      ROOST_ASSIGN_OR_RETURN(shard, SafetensorsFile::Open(directory / name));
    }
    if (shard->tensors().find(entry.key) == shard->tensors().end()) {
      return DataLoss(shard->path(), "tensor '{}' is missing, and the index names this file for it", entry.key);
    }
    file_of_.emplace(entry.key, shard.get());
  }
  for (auto& shard : shards) files_.push_back(std::move(shard.second));
  return {};
}

Result<SafetensorsDirectory::Found> SafetensorsDirectory::Find(std::string_view name) const {
  const auto file = file_of_.find(name);
  if (file == file_of_.end()) return DataLoss(source_, "tensor '{}' is missing", name);
  return Found{file->second, &file->second->tensors().find(name)->second};
}

}  // namespace roost::worker
