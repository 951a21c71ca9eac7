//! What an agent may use on SQLite by default.

use std::collections::BTreeSet;

use super::Policy;
use crate::verdict::StatementKind;

/// Scalar functions.
const SCALAR: &str = "
abs changes char coalesce concat concat_ws format glob hex if ifnull iif instr last_insert_rowid length like likelihood
likely lower ltrim max min nullif octet_length printf quote random randomblob replace round rtrim sign soundex
sqlite_version substr substring total_changes trim typeof unhex unicode unistr unistr_quote unlikely upper zeroblob
subtype

date time datetime julianday unixepoch strftime timediff current_date current_time current_timestamp

acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow power
radians sin sinh sqrt tan tanh trunc

json jsonb json_array jsonb_array json_array_insert jsonb_array_insert json_array_length json_error_position
json_extract jsonb_extract json_insert jsonb_insert json_object jsonb_object json_patch jsonb_patch json_pretty
json_quote json_remove jsonb_remove json_replace jsonb_replace json_set jsonb_set json_type json_valid

vec_distance_cosine vec_distance_l2 vec_dot vec_f32 vec_length vec_to_json

bm25 highlight snippet match -> ->>
";

/// Aggregate and window functions.
const AGGREGATE: &str = "
avg count group_concat max median min percentile percentile_cont percentile_disc string_agg sum total
json_group_array jsonb_group_array json_group_object jsonb_group_object

row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value
";

/// Functions allowed in place of a table.
const TABLE: &str = "
json_each json_tree jsonb_each jsonb_tree
pragma_table_info pragma_table_xinfo pragma_index_list pragma_index_info pragma_index_xinfo pragma_foreign_key_list
";

/// Built-in relations of the engine.
const ENGINE: &str = "
bytecode tables_used carray dbdata dbptr dbstat fsdir fts3tokenize generate_series memstat wholenumber zipfile
";

/// Fills in the lists.
pub(super) fn fill(policy: &mut Policy) {
    policy.statements = BTreeSet::from([
        StatementKind::Select,
        StatementKind::Explain,
        StatementKind::Insert,
        StatementKind::Update,
        StatementKind::Delete,
        StatementKind::CreateTable,
        StatementKind::CreateVirtualTable,
        StatementKind::CreateView,
        StatementKind::CreateIndex,
        StatementKind::CreateTrigger,
        StatementKind::Alter,
        StatementKind::Drop,
        StatementKind::Reindex,
        StatementKind::Analyze,
    ]);
    policy.functions = words(SCALAR).chain(words(AGGREGATE)).collect();
    policy.table_functions = words(TABLE).collect();
    policy.modules = words("fts5 rtree rtree_i32").collect();
    policy.schemas = words("main").collect();
    policy.readable =
        words("sqlite_schema sqlite_master sqlite_sequence sqlite_stat1 memory_entries").collect();
    policy.reserved_prefixes = words("sqlite_ _mem_ pragma_").collect();
    policy.reserved_names = words(ENGINE).chain(words("memory_entries")).collect();
}

fn words(list: &str) -> impl Iterator<Item = String> + '_ {
    list.split_ascii_whitespace().map(str::to_owned)
}
