# The words with which roost.capnp says more of a message than Cap'n Proto can: its bounds, and how its plain value
# looks in C++. schema/generator makes the values, the codec and the random messages from them.
@0xb1c2f0a6d3e94587;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("roost::schema");

# ---- bounds ----
#
# The decoder refuses what is outside, with an error that names the field. Each list and text needs `most`.

annotation least @0xe15a0e5bd0a1c001 (field) :Float64;
# The smallest value of a number, or the fewest entries or bytes of a list or text.

annotation most @0xe15a0e5bd0a1c002 (field) :Float64;
# The largest value of a number, or the most entries or bytes of a list or text. In a list of texts: the most bytes of
# each, and `mostEntries` bounds the list. The encoder checks lists and texts.

annotation mostEntries @0xe15a0e5bd0a1c003 (field) :Float64;

annotation above @0xe15a0e5bd0a1c004 (field) :Float64;
# A real number must be larger than this.

annotation text @0xe15a0e5bd0a1c005 (field) :TextKind;
enum TextKind {
  any @0;
  # Valid UTF-8, as every text.

  line @1;
  # No control characters: for logs, metrics and headers.

  label @2;
  # The same, not empty, and without invisible characters: names that people compare.
}

annotation named @0xe15a0e5bd0a1c006 (struct, field) :Text;
# A name in errors: of a struct, it stands before the names of its fields; of a field, it is the whole name.

annotation check @0xe15a0e5bd0a1c007 (struct, group) :Void;
# Rules between its fields: the decoder calls Check(reader, value) of common/wire/made_codec.h once all fields are read.

annotation enoughIf @0xe15a0e5bd0a1c008 (field) :Text;
# A function of the message. If it is true once this field is read, the fields declared after it keep their defaults.

annotation unknown @0xe15a0e5bd0a1c009 (enumerant) :Void;
# Stands for enumerants of newer peers. An enum without it reads them as its first one, and leaves them to a Check.

# ---- bytes ----

annotation omitEmpty @0xe15a0e5bd0a1c00a (field) :Void;
# An empty list or text is not written.

annotation cut @0xe15a0e5bd0a1c00c (field) :Void;
# The encoder writes only the front of a long text, and always as valid UTF-8.

# ---- the plain value ----

annotation optional @0xe15a0e5bd0a1c00d (field) :Void;
# A struct that may be absent: a std::optional.

annotation presentIf @0xe15a0e5bd0a1c00e (group) :Text;
# A group that may be absent, a std::optional: it is there if this field of it is not 0.

annotation form @0xe15a0e5bd0a1c00f (struct, group) :Form;
enum Form {
  usual @0;
  # A struct. A union of two whose first is Void is a std::optional, any other union a std::variant.

  kinds @1;
  # A struct whose union becomes a member `kind` and a member for each alternative.

  set @2;
  # A group of Bools: an EnumSet of those that are true.

  columns @3;
  # A group of lists of one length: a std::vector of rows.
}

annotation cxx @0xe15a0e5bd0a1c010 (struct, enum, field, group, union) :CxxForm;
struct CxxForm {
  type @0 :Text;
  # Name of the type. Of a field of numbers: a type that is made of them.

  existing @1 :Bool;
  # The type is written by hand elsewhere.

  name @2 :Text;
  # Name of the member.

  initial @3 :Text;
  # Value of a new one, where it is not the default on the wire.
}

annotation choice @0xe15a0e5bd0a1c011 (field) :Choice;
struct Choice {
  # A Bool as an enum of two.

  type @0 :Text;
  no @1 :Text;
  yes @2 :Text;
}

annotation local @0xe15a0e5bd0a1c012 (struct) :Local;
struct Local {
  # A member that is not on the wire, behind the others.

  type @0 :Text;
  name @1 :Text;
  comment @2 :Text;
}

annotation valuesIn @0xe15a0e5bd0a1c013 (file) :Text;
# Namespace of the values.

annotation valuesInclude @0xe15a0e5bd0a1c014 (file) :List(Text);
# Headers of the existing types.

# ---- what follows from a field ----

annotation needs @0xe15a0e5bd0a1c015 (field, group, union) :Text;
# A feature, a Bool of a group with `form` set: a message in which this field is not as in a new one may go only to a
# peer that has it. NeedsOf(message) gives all that it needs.

annotation shown @0xe15a0e5bd0a1c016 (field) :Text;
# Operators see this number, under this name: ForEachShown(message, show) calls show(name, value) for each such field.
