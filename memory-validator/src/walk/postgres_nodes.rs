//! Every kind of node of PostgreSQL's own tree that may occur, and which of its fields may hold anything.
//!
//! What is not here is refused: a statement, an expression, a clause that nobody thought of, a field that a later
//! version adds.

/// The type and its fields; `*` for all.
pub(super) const NODES: &[(&str, &str)] = &[
    ("ParseResult", "version stmts"),
    ("RawStmt", "stmt stmt_location stmt_len"),
    // Whatever it holds is a type of its own.
    ("Node", "*"),
    ("List", "items"),
    // Statements.
    (
        "SelectStmt",
        "distinct_clause target_list from_clause where_clause group_clause group_distinct having_clause window_clause \
         values_lists sort_clause limit_offset limit_count limit_option with_clause op all larg rarg",
    ),
    ("InsertStmt", "relation cols select_stmt on_conflict_clause returning_clause with_clause override"),
    ("UpdateStmt", "relation target_list where_clause from_clause returning_clause with_clause"),
    ("DeleteStmt", "relation using_clause where_clause returning_clause with_clause"),
    ("MergeStmt", "relation source_relation join_condition merge_when_clauses returning_clause with_clause"),
    ("MergeWhenClause", "match_kind command_type override condition target_list values"),
    (
        "CreateStmt",
        "relation table_elts inh_relations partbound partspec constraints nnconstraints options oncommit if_not_exists",
    ),
    ("CreateTableAsStmt", "query into objtype if_not_exists"),
    ("IntoClause", "rel col_names options on_commit skip_data"),
    ("ViewStmt", "view aliases query replace options with_check_option"),
    (
        "IndexStmt",
        "idxname relation access_method index_params index_including_params options where_clause unique \
         nulls_not_distinct if_not_exists",
    ),
    ("CreateSeqStmt", "sequence options if_not_exists"),
    ("AlterSeqStmt", "sequence options missing_ok"),
    ("CompositeTypeStmt", "typevar coldeflist"),
    ("CreateEnumStmt", "type_name vals"),
    ("AlterEnumStmt", "type_name old_val new_val new_val_neighbor new_val_is_after skip_if_new_val_exists"),
    ("AlterTableStmt", "relation cmds objtype missing_ok"),
    ("AlterTableCmd", "subtype name num def behavior missing_ok recurse"),
    ("RenameStmt", "rename_type relation_type relation object subname newname behavior missing_ok"),
    ("DropStmt", "objects remove_type behavior missing_ok"),
    ("TruncateStmt", "relations restart_seqs behavior"),
    ("CommentStmt", "objtype object comment"),
    ("RefreshMatViewStmt", "concurrent skip_data relation"),
    ("ExplainStmt", "query options"),
    // What stands in FROM.
    ("RangeVar", "schemaname relname inh relpersistence alias location"),
    ("RangeSubselect", "lateral subquery alias"),
    ("RangeFunction", "lateral ordinality is_rowsfrom functions alias coldeflist"),
    ("RangeTableSample", "relation method args repeatable location"),
    ("JoinExpr", "jointype is_natural larg rarg using_clause join_using_alias quals alias"),
    ("Alias", "aliasname colnames"),
    ("WithClause", "ctes recursive location"),
    ("CommonTableExpr", "ctename aliascolnames ctematerialized ctequery search_clause cycle_clause location"),
    ("CteSearchClause", "search_col_list search_breadth_first search_seq_column location"),
    (
        "CteCycleClause",
        "cycle_col_list cycle_mark_column cycle_mark_value cycle_mark_default cycle_path_column location",
    ),
    ("SortBy", "node sortby_dir sortby_nulls use_op location"),
    (
        "WindowDef",
        "name refname partition_clause order_clause frame_options start_offset end_offset location",
    ),
    ("GroupingSet", "kind content location"),
    // Expressions.
    ("ColumnRef", "fields location"),
    ("ResTarget", "name indirection val location"),
    ("AExpr", "kind name lexpr rexpr rexpr_list_start rexpr_list_end location"),
    ("BoolExpr", "boolop args location"),
    ("NullTest", "arg nulltesttype argisrow location"),
    ("BooleanTest", "arg booltesttype location"),
    ("TypeCast", "arg type_name location"),
    ("TypeName", "names setof typmods typemod array_bounds location"),
    ("CollateClause", "arg collname location"),
    (
        "FuncCall",
        "funcname args agg_order agg_filter over agg_within_group agg_star agg_distinct func_variadic funcformat location",
    ),
    ("NamedArgExpr", "arg name argnumber location"),
    ("AStar", ""),
    ("AIndices", "is_slice lidx uidx"),
    ("AIndirection", "arg indirection"),
    ("AArrayExpr", "elements list_start list_end location"),
    ("AConst", "isnull location val"),
    ("Val", "*"),
    ("Integer", "ival"),
    ("Float", "fval"),
    ("Boolean", "boolval"),
    ("String", "sval"),
    ("BitString", "bsval"),
    ("ParamRef", "number location"),
    ("SubLink", "sub_link_type sub_link_id testexpr oper_name subselect location"),
    ("CaseExpr", "arg args defresult location"),
    ("CaseWhen", "expr result location"),
    ("CoalesceExpr", "args location"),
    ("MinMaxExpr", "op args location"),
    ("SqlValueFunction", "op typmod location"),
    ("GroupingFunc", "args location"),
    ("RowExpr", "args row_format colnames location"),
    ("MultiAssignRef", "source colno ncolumns"),
    ("SetToDefault", "location"),
    ("MergeSupportFunc", "msftype location"),
    // XML that is made or parsed; what searches in it is left out.
    ("XmlExpr", "op name named_args arg_names args xmloption indent r#type typmod location"),
    ("XmlSerialize", "xmloption expr type_name indent location"),
    // JSON.
    ("JsonObjectConstructor", "exprs output absent_on_null unique location"),
    ("JsonArrayConstructor", "exprs output absent_on_null location"),
    ("JsonArrayQueryConstructor", "query output format absent_on_null location"),
    ("JsonAggConstructor", "output agg_filter agg_order over location"),
    ("JsonObjectAgg", "constructor arg absent_on_null unique"),
    ("JsonArrayAgg", "constructor arg absent_on_null"),
    ("JsonKeyValue", "key value"),
    ("JsonValueExpr", "raw_expr format"),
    ("JsonOutput", "type_name returning"),
    ("JsonFormat", "format_type encoding location"),
    ("JsonReturning", "format"),
    ("JsonIsPredicate", "expr format item_type unique_keys location"),
    ("JsonParseExpr", "expr output unique_keys location"),
    ("JsonScalarExpr", "expr output location"),
    ("JsonSerializeExpr", "expr output location"),
    (
        "JsonFuncExpr",
        "op column_name context_item pathspec passing output on_empty on_error wrapper quotes location",
    ),
    ("JsonArgument", "val name"),
    ("JsonBehavior", "btype expr coerce location"),
    ("JsonTable", "context_item pathspec passing columns on_error alias lateral location"),
    (
        "JsonTableColumn",
        "coltype name type_name pathspec format wrapper quotes columns on_empty on_error location",
    ),
    ("JsonTablePathSpec", "string name name_location location"),
    // Changes.
    ("OnConflictClause", "action infer target_list where_clause location"),
    ("InferClause", "index_elems where_clause conname location"),
    ("ReturningClause", "options exprs"),
    ("ReturningOption", "option value location"),
    // Definitions.
    ("IndexElem", "name expr indexcolname collation opclass opclassopts ordering nulls_ordering"),
    (
        "ColumnDef",
        "colname type_name compression is_local is_not_null storage storage_name raw_default identity generated \
         coll_clause constraints location",
    ),
    (
        "Constraint",
        "contype conname deferrable initdeferred is_enforced skip_validation initially_valid is_no_inherit raw_expr \
         generated_when generated_kind nulls_not_distinct keys without_overlaps including exclusions options indexname \
         access_method where_clause pktable fk_attrs pk_attrs fk_with_period pk_with_period fk_matchtype fk_upd_action \
         fk_del_action fk_del_set_cols location",
    ),
    (
        "AtAlterConstraint",
        "conname alter_enforceability is_enforced alter_deferrability deferrable initdeferred alter_inheritability noinherit",
    ),
    ("DefElem", "defname arg defaction location arg_location"),
    ("PartitionSpec", "strategy part_params location"),
    ("PartitionElem", "name expr collation opclass location"),
    (
        "PartitionBoundSpec",
        "strategy is_default modulus remainder listdatums lowerdatums upperdatums location",
    ),
    ("PartitionRangeDatum", "kind value location"),
    ("PartitionCmd", "name bound"),
    ("TableLikeClause", "relation options"),
];
