//! The walk over the definitions of SQLite's tables.

use sqlite3_parser::ast::{
    AlterTableBody, ColumnConstraint, ColumnDefinition, CreateTableBody, ForeignKeyClause, IndexedColumn,
    NamedColumnConstraint, NamedTableConstraint, RefArg, TableConstraint, Type, TypeSize,
};

use super::sqlite::{Walk, Walked};
use crate::refusals;
use crate::verdict::{Access, Stage};

impl Walk<'_, '_> {
    pub(super) fn table(&mut self, body: &CreateTableBody<'_>) -> Walked {
        match body {
            CreateTableBody::AsSelect(select) => self.select(select),
            CreateTableBody::ColumnsAndConstraints { columns, constraints, flags: _ } => {
                for column in columns {
                    self.column(column)?;
                }
                for constraint in constraints.unwrap_or_default() {
                    self.constraint(constraint)?;
                }
                Ok(())
            }
        }
    }

    pub(super) fn column(&mut self, column: &ColumnDefinition<'_>) -> Walked {
        let ColumnDefinition { col_name, col_type, constraints, flags: _ } = column;
        self.plain(col_name)?;
        self.column_type(col_type.as_ref())?;
        for NamedColumnConstraint { name, constraint } in *constraints {
            self.plains(name.as_ref())?;
            match constraint {
                ColumnConstraint::PrimaryKey { order: _, conflict_clause, auto_increment: _ } => {
                    self.conflict(*conflict_clause)?;
                }
                ColumnConstraint::NotNull { nullable: _, conflict_clause } => {
                    self.conflict(*conflict_clause)?;
                }
                ColumnConstraint::Unique(conflict) => self.conflict(*conflict)?,
                ColumnConstraint::Check(expr) | ColumnConstraint::Default(expr) => self.expr(expr)?,
                ColumnConstraint::Defer(_) => {}
                ColumnConstraint::Collate { collation_name } => self.plain(collation_name)?,
                ColumnConstraint::ForeignKey { clause, defer_clause: _ } => self.foreign_key(clause)?,
                ColumnConstraint::Generated { expr, typ: _ } => self.expr(expr)?,
            }
        }
        Ok(())
    }

    pub(super) fn constraint(&mut self, constraint: &NamedTableConstraint<'_>) -> Walked {
        let NamedTableConstraint { name, constraint } = constraint;
        self.plains(name.as_ref())?;
        match constraint {
            TableConstraint::PrimaryKey { columns, auto_increment: _, conflict_clause }
            | TableConstraint::Unique { columns, conflict_clause } => {
                self.sorted(columns)?;
                self.conflict(*conflict_clause)
            }
            TableConstraint::Check(expr, conflict) => {
                self.expr(expr)?;
                self.conflict(*conflict)
            }
            TableConstraint::ForeignKey { columns, clause, defer_clause: _ } => {
                self.columns(columns)?;
                self.foreign_key(clause)
            }
        }
    }

    pub(super) fn foreign_key(&mut self, clause: &ForeignKeyClause<'_>) -> Walked {
        let ForeignKeyClause { tbl_name, columns, args } = clause;
        let table = self.bare(tbl_name.0)?;
        if self.policy.is_reserved(&table) {
            return Err(refusals::relation(Stage::Walk, self.find(&table, false), &table));
        }
        self.note(None, table, Access::Read);
        self.columns(columns.unwrap_or_default())?;
        for arg in *args {
            match arg {
                RefArg::OnDelete(_) | RefArg::OnInsert(_) | RefArg::OnUpdate(_) => {}
                RefArg::Match(name) => self.plain(name)?,
            }
        }
        Ok(())
    }

    pub(super) fn alter(&mut self, body: &AlterTableBody<'_>) -> Walked {
        match body {
            AlterTableBody::RenameTo(new) => self.made(new),
            AlterTableBody::AddColumn(column) => self.column(column),
            AlterTableBody::DropColumnNotNull(name)
            | AlterTableBody::DropColumn(name)
            | AlterTableBody::DropConstraint(name) => self.plain(name),
            AlterTableBody::SetColumnNotNull(name, conflict) => {
                self.plain(name)?;
                self.conflict(*conflict)
            }
            AlterTableBody::RenameColumn { old, new } => {
                self.plain(old)?;
                self.plain(new)
            }
            AlterTableBody::AddConstraint(constraint) => self.constraint(constraint),
        }
    }

    pub(super) fn column_type(&mut self, column_type: Option<&Type<'_>>) -> Walked {
        let Some(Type { name: _, size }) = column_type else { return Ok(()) };
        match size {
            Some(TypeSize::MaxSize(size)) => self.expr(size),
            Some(TypeSize::TypeSize(size, scale)) => {
                self.expr(size)?;
                self.expr(scale)
            }
            None => Ok(()),
        }
    }

    pub(super) fn columns(&self, columns: &[IndexedColumn<'_>]) -> Walked {
        columns.iter().try_for_each(|IndexedColumn { col_name, collation_name, order: _ }| {
            self.plain(col_name)?;
            self.plains(collation_name.as_ref())
        })
    }

    pub(super) fn temporary(&self, temporary: bool) -> Walked {
        if temporary { Err(refusals::temp(Stage::Walk, self.find("temp", false), "TEMP")) } else { Ok(()) }
    }
}
